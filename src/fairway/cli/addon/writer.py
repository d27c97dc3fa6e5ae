"""Write the objects of an add-on to a hub, and delete them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from msgspec import Struct

from fairway.api.addon import ADD_ON_GROUP
from fairway.api.resources import CLUSTER_MANAGEMENT_ADD_ONS, MANAGED_CLUSTER_SCORES
from fairway.cli.errors import BadInputError
from fairway.providers.addon import CLUSTER, FAIRWAY, MANAGED_BY, PART_OF, RBAC, Document, Plan, documents
from kubewire.api.meta import ObjectMeta
from kubewire.client import Client, Conflict, NotFound, Patch, Resource

MANAGER: Final = "fairway-addon"

NOT_OURS: Final = (
    "{objects} already {exist} and {are} not managed by Fairway; replace {them} with --take-over, or "
    "delete {them} first"
)
NO_ADD_ONS: Final = (
    "the hub does not serve {kind}. On a hub without Open Cluster Management, install the CRDs first: "
    "fairway crds | kubectl apply -f -"
)
NO_RAW: Final = (
    "--managed-cluster-scores: the hub does not serve ManagedClusterScore; install its CRD first: "
    "fairway crds managedclusterscores | kubectl apply -f -"
)
NO_PLACEMENT: Final = "placement {namespace}/{name} not found on the hub; name another with --placement"
CHANGED_MEANWHILE: Final = "{what} was changed by another client at the same time; try again"

_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

Done = Literal["created", "changed", "unchanged", "taken over", "kept", "removed"]


class AnyObject(Struct, frozen=True, kw_only=True, rename="camel"):
    """An object of any kind, with the fields that the add-on's objects have."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] | None = None
    rules: list[Any] | None = None
    role_ref: dict[str, Any] | None = None
    subjects: list[Any] | None = None

    def content(self) -> tuple[object, ...]:
        meta = self.metadata
        return meta.labels, meta.annotations, self.spec, self.rules, self.role_ref, self.subjects


def _kind(group: str, version: str, plural: str, kind: str, *, namespaced: bool) -> Resource[AnyObject]:
    return Resource(
        group=group, version=version, plural=plural, kind=kind, namespaced=namespaced, type=AnyObject
    )


KINDS: Final[Mapping[str, Resource[AnyObject]]] = {
    kind.kind: kind
    for kind in (
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
"""In the order to write them; deleted in reverse."""
SHARED: Final = frozenset({"Namespace", "ManagedClusterSetBinding"})
"""Kinds whose existing object of another owner is used as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The result for one object."""

    kind: str
    name: str
    namespace: str
    done: Done
    respecified: bool = False
    """Whether the object existed and its spec changed."""

    def row(self) -> dict[str, object]:
        return {"kind": self.kind, "namespace": self.namespace, "name": self.name, "done": self.done}


async def install(client: Client, plan: Plan, *, take_over: bool, dry_run: bool) -> list[Step]:
    """Write the objects of an add-on, after checking all of them. Raises BadInputError and KubeErrors."""
    wanted = list(documents(plan))
    await require_add_ons(client)
    if plan.managed_cluster_scores:
        await _require_raw_scores(client)
    if plan.placement is not None:
        await _require_placement(client, plan.placement)
    existing = [await _get(client, document) for document in wanted]
    foreign = [
        _describe(document)
        for document, seen in zip(wanted, existing, strict=True)
        if seen is not None and not is_ours(seen, plan.name) and document["kind"] not in SHARED
    ]
    if foreign and not take_over:
        one = len(foreign) == 1
        raise BadInputError(
            NOT_OURS.format(
                objects=", ".join(foreign),
                exist="exists" if one else "exist",
                are="is" if one else "are",
                them="it" if one else "them",
            )
        )
    no_namespace = dry_run and existing[0] is None
    return [
        await _write(client, plan, document, seen, dry_run=dry_run, no_namespace=no_namespace)
        for document, seen in zip(wanted, existing, strict=True)
    ]


async def require_add_ons(client: Client) -> None:
    try:
        await client.newest(CLUSTER_MANAGEMENT_ADD_ONS)
    except NotFound:
        raise BadInputError(NO_ADD_ONS.format(kind=CLUSTER_MANAGEMENT_ADD_ONS.kind)) from None


async def _require_raw_scores(client: Client) -> None:
    try:
        await client.newest(MANAGED_CLUSTER_SCORES)
    except NotFound:
        raise BadInputError(NO_RAW) from None


async def is_offered(client: Client, add_on: str) -> bool:
    """Whether a ClusterManagementAddOn of this name exists, of any owner."""
    try:
        await client.get(CLUSTER_MANAGEMENT_ADD_ONS, add_on)
    except NotFound:
        return False
    return True


async def _require_placement(client: Client, placement: tuple[str, str]) -> None:
    namespace, name = placement
    try:
        await client.get(KINDS["Placement"], name, namespace=namespace)
    except NotFound:
        raise BadInputError(NO_PLACEMENT.format(namespace=namespace, name=name)) from None


def is_ours(seen: AnyObject, add_on: str) -> bool:
    labels = seen.metadata.labels
    return labels.get(MANAGED_BY) == FAIRWAY and labels.get(PART_OF) == add_on


async def _get(client: Client, document: Document) -> AnyObject | None:
    metadata = document["metadata"]
    try:
        return await client.get(
            KINDS[document["kind"]], metadata["name"], namespace=metadata.get("namespace")
        )
    except NotFound:
        return None


async def _write(
    client: Client,
    plan: Plan,
    document: Document,
    seen: AnyObject | None,
    *,
    dry_run: bool,
    no_namespace: bool,
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
        # Replace the whole object: fields left from another add-on would be installed with ours.
        body = {**document, "metadata": {**metadata, "resourceVersion": seen.metadata.resourceVersion}}
        try:
            now = await client.update(
                resource, name, body, namespace=namespace, field_manager=MANAGER, dry_run=dry_run
            )
        except Conflict:
            raise BadInputError(CHANGED_MEANWHILE.format(what=_describe(document))) from None
        return step("taken over", spec=now.spec)
    if no_namespace and namespace is not None:
        return step("created")  # a dry run in a namespace that does not exist fails
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
    return step("unchanged" if now.content() == seen.content() else "changed", spec=now.spec)


async def written_for(client: Client, add_on: str) -> list[tuple[Resource[AnyObject], AnyObject]]:
    """Return the objects that install wrote, in the order to delete them, without namespaces."""
    labels = f"{MANAGED_BY}={FAIRWAY},{PART_OF}={add_on}"
    written: list[tuple[Resource[AnyObject], AnyObject]] = []
    for resource in reversed(tuple(KINDS.values())):
        if resource.kind == "Namespace":
            continue
        try:
            listing = await client.list(resource, labels=labels)
        except NotFound:
            continue  # the hub does not serve the kind
        written += [(resource, item) for item in listing.items]
    return written


def providers_of(things: Iterable[tuple[Resource[AnyObject], AnyObject]]) -> set[str]:
    """Return the providers in the add-on's AddOnDeploymentConfig."""
    variables = [
        variable
        for _, thing in things
        for variable in (thing.spec or {}).get("customizedVariables", ())
        if variable.get("name") == "PROVIDERS"
    ]
    names = {name.strip() for variable in variables for name in str(variable.get("value", "")).split(",")}
    return {name for name in names if _LABEL_VALUE.fullmatch(name)}


async def remove(client: Client, things: Iterable[tuple[Resource[Any], Any]], *, dry_run: bool) -> list[Step]:
    """Delete objects by uid, so that a new object of the same name is kept."""
    steps: list[Step] = []
    for resource, thing in things:
        meta = thing.metadata
        try:
            await client.delete(
                resource, meta.name, namespace=meta.namespace or None, uid=meta.uid, dry_run=dry_run
            )
        except (NotFound, Conflict):
            continue
        steps.append(Step(kind=resource.kind, name=meta.name, namespace=meta.namespace, done="removed"))
    return steps


def _describe(document: Document) -> str:
    metadata = document["metadata"]
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{document['kind']} {place}{metadata['name']}"
