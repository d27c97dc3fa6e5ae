"""What `fairway addon` does on a hub: writes documents that are ours, and takes away what it wrote."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from msgspec import Struct

from fairway.api.addon import ADD_ON_GROUP
from fairway.api.meta import ObjectMeta
from fairway.cli.addon.objects import CLUSTER, FAIRWAY, MANAGED_BY, PART_OF, RBAC, Document, Plan, documents
from fairway.cli.errors import BadInputError
from fairway.kube import (
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_SCORES,
    Client,
    Conflict,
    NotFound,
    Patch,
    Resource,
)

MANAGER: Final = "fairway-addon"

NOT_OURS: Final = (
    "{objects} {are} there already, and Fairway did not write {them}; --take-over replaces {them}, or remove "
    "{them} first"
)
NO_ADD_ONS: Final = (
    "the hub does not know add-ons: it serves no {kind}. On a hub without Open Cluster Management, define them "
    "first: fairway crds | kubectl apply -f -"
)
NO_RAW: Final = (
    "the hub does not know ManagedClusterScores, which --managed-cluster-scores has the agents publish; define them "
    "first: fairway crds managedclusterscores | kubectl apply -f -"
)
NO_PLACEMENT: Final = "there is no placement {namespace}/{name} on the hub; name another with --placement"
CHANGED_MEANWHILE: Final = "{what} was changed at the same time by somebody else; try again"

_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

Done = Literal["created", "changed", "unchanged", "taken over", "kept", "removed"]


class Thing(Struct, frozen=True, kw_only=True, rename="camel"):
    """Any object: whose it is, and what it says."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] | None = None
    rules: list[Any] | None = None
    role_ref: dict[str, Any] | None = None
    subjects: list[Any] | None = None

    def says(self) -> tuple[object, ...]:
        meta = self.metadata
        return meta.labels, meta.annotations, self.spec, self.rules, self.role_ref, self.subjects


def _kind(group: str, version: str, plural: str, kind: str, *, namespaced: bool) -> Resource[Thing]:
    return Resource(group=group, version=version, plural=plural, kind=kind, namespaced=namespaced, type=Thing)


KINDS: Final[Mapping[str, Resource[Thing]]] = {
    each.kind: each
    for each in (
        _kind("", "v1", "namespaces", "Namespace", namespaced=False),
        _kind(CLUSTER, "v1beta2", "managedclustersetbindings", "ManagedClusterSetBinding", namespaced=True),
        _kind(CLUSTER, "v1beta1", "placements", "Placement", namespaced=True),
        _kind(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
        _kind(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        _kind(ADD_ON_GROUP, "v1alpha1", "addontemplates", "AddOnTemplate", namespaced=False),
        _kind(ADD_ON_GROUP, "v1alpha1", "addondeploymentconfigs", "AddOnDeploymentConfig", namespaced=True),
        _kind(
            ADD_ON_GROUP, "v1alpha1", "clustermanagementaddons", "ClusterManagementAddOn", namespaced=False
        ),
    )
}
"""In the order they are written; removed in the opposite one."""
SHARED: Final = frozenset({"Namespace", "ManagedClusterSetBinding"})
"""Kinds of which one that somebody else made serves as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What became of one object."""

    kind: str
    name: str
    namespace: str
    done: Done
    respecified: bool = False
    """It was there, and its spec is another one now."""

    def row(self) -> dict[str, object]:
        return {"kind": self.kind, "namespace": self.namespace, "name": self.name, "done": self.done}


async def install(client: Client, plan: Plan, *, take_over: bool, dry_run: bool) -> list[Step]:
    """Everything is looked at before anything is written. Raises BadInputError, KubeErrors."""
    wanted = list(documents(plan))
    await refuse_without_add_ons(client)
    if plan.managed_cluster_scores:
        await _refuse_without_raw(client)
    if plan.placement is not None:
        await _find(client, plan.placement)
    there = [await _seen(client, each) for each in wanted]
    foreign = [
        _named(document)
        for document, seen in zip(wanted, there, strict=True)
        if seen is not None and not is_ours(seen, plan.name) and document["kind"] not in SHARED
    ]
    if foreign and not take_over:
        one = len(foreign) == 1
        raise BadInputError(
            NOT_OURS.format(
                objects=", ".join(foreign), are="is" if one else "are", them="it" if one else "them"
            )
        )
    roomless = dry_run and there[0] is None
    return [
        await _written(client, plan, document, seen, dry_run=dry_run, roomless=roomless)
        for document, seen in zip(wanted, there, strict=True)
    ]


async def refuse_without_add_ons(client: Client) -> None:
    try:
        await client.newest(CLUSTER_MANAGEMENT_ADD_ONS)
    except NotFound:
        raise BadInputError(NO_ADD_ONS.format(kind=CLUSTER_MANAGEMENT_ADD_ONS.kind)) from None


async def _refuse_without_raw(client: Client) -> None:
    try:
        await client.newest(MANAGED_CLUSTER_SCORES)
    except NotFound:
        raise BadInputError(NO_RAW) from None


async def is_offered(client: Client, add_on: str) -> bool:
    """Whether there is an add-on of this name, whoever made it."""
    try:
        await client.get(CLUSTER_MANAGEMENT_ADD_ONS, add_on)
    except NotFound:
        return False
    return True


async def _find(client: Client, placement: tuple[str, str]) -> None:
    namespace, name = placement
    try:
        await client.get(KINDS["Placement"], name, namespace=namespace)
    except NotFound:
        raise BadInputError(NO_PLACEMENT.format(namespace=namespace, name=name)) from None


def is_ours(seen: Thing, add_on: str) -> bool:
    labels = seen.metadata.labels
    return labels.get(MANAGED_BY) == FAIRWAY and labels.get(PART_OF) == add_on


async def _seen(client: Client, document: Document) -> Thing | None:
    metadata = document["metadata"]
    try:
        return await client.get(
            KINDS[document["kind"]], metadata["name"], namespace=metadata.get("namespace")
        )
    except NotFound:
        return None


async def _written(
    client: Client, plan: Plan, document: Document, seen: Thing | None, *, dry_run: bool, roomless: bool
) -> Step:
    metadata, resource = document["metadata"], KINDS[document["kind"]]
    name, namespace = metadata["name"], metadata.get("namespace")

    def step(done: Done, *, spec: object = None) -> Step:
        before = spec if seen is None or spec is None else seen.spec
        return Step(
            kind=resource.kind, name=name, namespace=namespace or "", done=done, respecified=before != spec
        )

    if seen is not None and not is_ours(seen, plan.name):
        if resource.kind in SHARED:
            return step("kept")
        # As a whole: what is left of somebody else's add-on would be installed along with ours.
        body = {**document, "metadata": {**metadata, "resourceVersion": seen.metadata.resourceVersion}}
        try:
            now = await client.update(
                resource, name, body, namespace=namespace, field_manager=MANAGER, dry_run=dry_run
            )
        except Conflict:
            raise BadInputError(CHANGED_MEANWHILE.format(what=_named(document))) from None
        return step("taken over", spec=now.spec)
    if roomless and namespace is not None:
        return step("created")  # nobody can be asked about what is in a namespace that is not there yet
    now = await client.patch(
        resource,
        name,
        document,
        kind=Patch.APPLY,
        namespace=namespace,
        field_manager=MANAGER,
        force=True,
        dry_run=dry_run,
    )
    if seen is None:
        return step("created")
    return step("unchanged" if now.says() == seen.says() else "changed", spec=now.spec)


async def written_for(client: Client, add_on: str) -> list[tuple[Resource[Thing], Thing]]:
    """All that install made and is still there, in the order to remove it. Namespaces are not among it."""
    labels = f"{MANAGED_BY}={FAIRWAY},{PART_OF}={add_on}"
    found: list[tuple[Resource[Thing], Thing]] = []
    for resource in reversed(tuple(KINDS.values())):
        if resource.kind == "Namespace":
            continue
        try:
            listing = await client.list(resource, labels=labels)
        except NotFound:
            continue  # a hub that does not serve the kind
        found += [(resource, each) for each in listing.items]
    return found


def providers_of(things: Iterable[tuple[Resource[Thing], Thing]]) -> set[str]:
    """The providers that the agents of an add-on run, by its AddOnDeploymentConfig."""
    variables = [
        each
        for _, thing in things
        for each in (thing.spec or {}).get("customizedVariables", ())
        if each.get("name") == "PROVIDERS"
    ]
    names = {name.strip() for each in variables for name in str(each.get("value", "")).split(",")}
    return {name for name in names if _LABEL_VALUE.fullmatch(name)}


async def remove(client: Client, things: Iterable[tuple[Resource[Any], Any]], *, dry_run: bool) -> list[Step]:
    """Each as it was seen: what somebody made anew under the same name stays."""
    steps: list[Step] = []
    for resource, each in things:
        meta = each.metadata
        try:
            await client.delete(
                resource, meta.name, namespace=meta.namespace or None, uid=meta.uid, dry_run=dry_run
            )
        except (NotFound, Conflict):
            continue
        steps.append(Step(kind=resource.kind, name=meta.name, namespace=meta.namespace, done="removed"))
    return steps


def _named(document: Document) -> str:
    metadata = document["metadata"]
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{document['kind']} {place}{metadata['name']}"
