"""Reconcile one add-on on one cluster: permissions on the hub, the ManifestWork of its agent, and its status."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import structs

from fairway.api.addon import (
    CUSTOMIZED_HEALTH,
    INSTALL_NAMESPACE,
    ConfigGroupResource,
    HealthCheck,
    ManagedClusterAddOn,
    ManagedClusterAddOnStatus,
)
from fairway.api.addon_template import AddOnTemplate
from fairway.api.cluster import ManagedCluster
from fairway.api.kinds import encode
from fairway.api.meta import TRUE, Condition
from fairway.api.work import ManifestWork
from fairway.controllers.addons import conditions, configs, health, names, registration, works
from fairway.controllers.addons.configs import ConfigError, Configs, StrangeConfig
from fairway.controllers.addons.index import AddOnIndex
from fairway.controllers.addons.installation import is_self_managed, owner
from fairway.controllers.addons.rendering import Rendered, TemplateError, render
from fairway.controllers.fenced_writer import FencedWriter, truncate, with_condition
from fairway.controllers.kinds import ROLE_BINDINGS, RoleBinding
from fairway.controllers.leadership import Leadership
from fairway.kube import (
    MANAGED_CLUSTER_ADD_ONS,
    MANIFEST_WORKS,
    ApiError,
    BadRequest,
    Clock,
    Conflict,
    Invalid,
    NotFound,
)

HOSTED: Final = (
    "annotation {annotation} requests to run the agent on cluster {cluster}; Fairway installs an agent only on its own "
    "cluster, OCM's addon-manager also on others"
)


@dataclass(slots=True)
class _StatusDraft:
    """The result of reconciling an add-on."""

    status: ManagedClusterAddOnStatus
    clock: Clock
    conditions: list[Condition] = field(default_factory=list)
    outdated: bool = False
    """The add-on was changed meanwhile; the watch event requeues it."""

    def set(self, condition: Condition) -> None:
        self.conditions.append(structs.replace(condition, message=truncate(condition.message)))

    def result(self) -> ManagedClusterAddOnStatus:
        kept = self.status.conditions
        for each in self.conditions:
            kept = with_condition(kept, each, clock=self.clock)
        return structs.replace(self.status, conditions=kept)


class Deployer:
    def __init__(self, known: AddOnIndex, writes: FencedWriter, *, clock: Clock) -> None:
        self._index, self._writer, self._clock = known, writes, clock

    async def deploy(self, cluster_name: str, name: str, leadership: Leadership) -> None:
        """Write the status even if the hub rejected a write; then raise that error, so that the key is retried."""
        add_on = self._index.add_ons.get(name, namespace=cluster_name)
        if add_on is None:
            return
        cluster, offer = self._index.cluster(cluster_name), self._index.offers.get(name)
        if cluster is None:
            await self._revoke_rights(add_on, leadership)
            await self._release(add_on, leadership)
            return
        if offer is not None and is_self_managed(offer):
            return
        if not cluster.spec.hubAcceptsClient:
            # Agents of add-ons have their own certificates, which may be valid for longer than the cluster's.
            await self._revoke_rights(add_on, leadership)
        if add_on.metadata.deletionTimestamp is not None:
            if self._index.accepted(cluster_name):
                await self._end(add_on, cluster, leadership)
            else:
                await self._release(add_on, leadership)  # its work agent has no access to works
            return
        if cluster.metadata.deletionTimestamp is not None or not self._index.accepted(cluster_name):
            return
        if await self._adopt(add_on, leadership):
            return  # the stored object is outdated now; the watch event requeues it
        draft = _StatusDraft(add_on.status, self._clock)
        try:
            await self._deploy(add_on, draft, leadership)
        finally:
            if (silent := health.cluster_silent(cluster)) is not None:
                draft.set(silent)
            if not draft.outdated:
                await self._write(add_on, draft.result(), leadership)

    async def _deploy(self, add_on: ManagedClusterAddOn, draft: _StatusDraft, leadership: Leadership) -> None:
        if self._index.offers.get(add_on.metadata.name) is None:
            return  # no administrator has offered the add-on
        found = self._configured(add_on, draft)
        if found is None or found.template is None:
            return
        rendered = _rendered(add_on, found.template, found, draft)
        if rendered is None:
            return
        if await self._sync_hook_finalizer(add_on, rendered, leadership):
            draft.outdated = True
            return
        trouble = await self._register(add_on, found.template, draft, leadership)
        hashes = _keyed(found)
        wanted = works.deployed(add_on, found.template, rendered, hashes=hashes)
        work, refused = await self._apply(wanted, draft, leadership)
        if refused is None:
            self._report(add_on, found, work, hashes, draft)
        draft.status = structs.replace(
            draft.status,
            namespace=_namespace(add_on, rendered),
            registrations=registration.registrations(
                found.template, cluster=add_on.metadata.namespace, add_on=add_on.metadata.name
            ),
            healthCheck=HealthCheck(mode=CUSTOMIZED_HEALTH),
        )
        if (failure := refused or trouble) is not None and not isinstance(failure, Invalid | BadRequest):
            raise failure

    def _configured(self, add_on: ManagedClusterAddOn, draft: _StatusDraft) -> Configs | None:
        """None if a configuration is invalid. Existing objects stay unchanged then."""
        kind = conditions.CONFIGURED
        offer = self._index.offers.get(add_on.metadata.name)
        hosting = add_on.metadata.annotations.get(names.HOSTING_CLUSTER, "")
        if hosting:
            message = HOSTED.format(cluster=hosting, annotation=names.HOSTING_CLUSTER)
            draft.set(conditions.no(kind, conditions.CONFIGURATION_UNSUPPORTED, message))
            return None
        unreadable = configs.unreadable(add_on) or ("" if offer is None else configs.unreadable(offer))
        if unknown := unreadable or configs.unsupported(add_on, offer):
            draft.set(conditions.no(kind, conditions.CONFIGURATION_UNSUPPORTED, unknown))
            return None
        try:
            found = configs.found(
                self._index.references(add_on),
                add_on=add_on.metadata.name,
                templates=self._index.templates.store,
                deployments=self._index.deployments.store,
            )
        except ConfigError as error:
            strange = isinstance(error, StrangeConfig)
            reason = conditions.CONFIGURATION_UNSUPPORTED if strange else conditions.CONFIGURATION_NOT_FOUND
            draft.set(conditions.no(kind, reason, str(error)))
            return None
        if found.template is None:
            return found
        supported = () if offer is None else offer.spec.supportedConfigs
        draft.status = structs.replace(
            draft.status,
            supportedConfigs=tuple(
                ConfigGroupResource(group=each.group, resource=each.resource) for each in supported
            ),
        )
        draft.set(conditions.yes(kind, conditions.CONFIGURATIONS_CONFIGURED, conditions.CONFIGURED_MESSAGE))
        return found

    async def _register(
        self,
        add_on: ManagedClusterAddOn,
        template: AddOnTemplate,
        draft: _StatusDraft,
        leadership: Leadership,
    ) -> ApiError | None:
        kind = conditions.REGISTRATION_APPLIED
        roles = registration.roles(template)
        wanted = [registration.binding(add_on, role, first=not index) for index, role in enumerate(roles)]
        await self._revoke_rights(add_on, leadership, but=frozenset(each.metadata.name for each in wanted))
        if not template.spec.registration:
            draft.set(conditions.yes(kind, conditions.NO_REGISTRATION, conditions.NOT_REGISTERED_MESSAGE))
            return None
        for role, each in zip(roles, wanted, strict=True):
            try:
                await self._bind(each, leadership)
            except Conflict:
                raise
            except ApiError as error:
                words = conditions.ROLE_MISSING if isinstance(error, NotFound) else conditions.BIND_REFUSED
                message = words.format(role=role, why=error.message)
                draft.set(conditions.no(kind, conditions.PERMISSION_FAILED, message))
                return error
        if message := registration.unsupported(template, add_on.metadata.name):
            draft.set(conditions.no(kind, conditions.PERMISSION_UNSUPPORTED, message))
            return None
        draft.set(conditions.yes(kind, conditions.PERMISSION_APPLIED, conditions.REGISTERED_MESSAGE))
        return None

    async def _revoke_rights(
        self, add_on: ManagedClusterAddOn, leadership: Leadership, *, but: frozenset[str] = frozenset()
    ) -> None:
        """Remove rights on the hub that the agent no longer needs."""
        surplus = [each for each in self._index.granted(add_on) if each.metadata.name not in but]
        if not surplus:
            return
        async with leadership.batch():
            for each in surplus:
                try:
                    await self._writer.delete(ROLE_BINDINGS, each.metadata, leadership=leadership)
                except NotFound:
                    continue

    async def _bind(self, wanted: RoleBinding, leadership: Leadership) -> None:
        meta = wanted.metadata
        seen = self._index.bindings.get(meta.name, namespace=meta.namespace)
        if seen is not None and _bound(wanted, seen):
            return
        async with leadership.batch():
            if seen is not None and seen.role_ref != wanted.role_ref:
                # The role of a binding is immutable, so replace the binding.
                await self._writer.delete(ROLE_BINDINGS, seen.metadata, leadership=leadership)
            await self._writer.apply(ROLE_BINDINGS, msgspec.to_builtins(wanted), leadership=leadership)

    async def _apply(
        self, wanted: ManifestWork, draft: _StatusDraft, leadership: Leadership
    ) -> tuple[ManifestWork | None, ApiError | None]:
        seen = self._index.work(wanted.metadata.namespace, wanted.metadata.name)
        if seen is not None and (works.met_by(wanted, seen) or seen.metadata.deletionTimestamp is not None):
            return seen, None
        try:
            async with leadership.batch():
                written = await self._writer.apply(MANIFEST_WORKS, works.body(wanted), leadership=leadership)
            # It may contain a newer report of the agent, which the watch delivers after older versions.
            self._index.works.observe(written)
            return written, None
        except Conflict:
            raise
        except ApiError as error:
            draft.set(conditions.no(conditions.MANIFEST_APPLIED, conditions.WORK_REFUSED, error.message))
            return seen, error

    def _report(
        self,
        add_on: ManagedClusterAddOn,
        found: Configs,
        work: ManifestWork | None,
        hashes: Mapping[str, str],
        draft: _StatusDraft,
    ) -> None:
        name = add_on.metadata.name
        applied = works.hashes_of(work) if work is not None and works.applied(work) else {}
        there = health.manifests_applied(work, name)
        draft.set(there)
        draft.set(health.available(name, work))
        draft.set(_progress(there, newest=applied == hashes))
        draft.status = structs.replace(
            draft.status,
            configReferences=configs.written(found, applied=applied, before=draft.status.configReferences),
        )

    # Ending

    async def _sync_hook_finalizer(
        self, add_on: ManagedClusterAddOn, rendered: Rendered, leadership: Leadership
    ) -> bool:
        """Keep a finalizer on an add-on with a pre-delete hook. Return whether it changed."""
        held = names.PRE_DELETE in add_on.metadata.finalizers
        if held == bool(rendered.hooks):
            return False
        kept = [each for each in add_on.metadata.finalizers if each != names.PRE_DELETE]
        await self._finalize(add_on, kept if held else [*kept, names.PRE_DELETE], leadership)
        return True

    async def _end(
        self, add_on: ManagedClusterAddOn, cluster: ManagedCluster, leadership: Leadership
    ) -> None:
        """Run the pre-delete hook while its template is known; otherwise do not wait."""
        if names.PRE_DELETE not in add_on.metadata.finalizers:
            return  # the hub's garbage collector does the rest
        draft = _StatusDraft(add_on.status, self._clock)
        found = self._configured(add_on, draft)
        rendered: Rendered | None = None
        if found is not None and found.template is not None:
            rendered = _rendered(add_on, found.template, found, draft)
        wanted = None if rendered is None else works.pre_delete(add_on, rendered)
        work = self._index.work(cluster.metadata.name, names.pre_delete_work(add_on.metadata.name))
        if wanted is not None and work is None:
            work, refused = await self._apply(wanted, draft, leadership)
            if refused is not None:
                await self._write(add_on, draft.result(), leadership)
                raise refused
        if work is None or works.is_hook_complete(work):
            await self._release(add_on, leadership)
            return
        message = conditions.HOOK_MESSAGE.format(work=work.metadata.name)
        draft.set(conditions.no(conditions.HOOK_COMPLETED, conditions.HOOK_RUNS, message))
        await self._write(add_on, draft.result(), leadership)

    async def _release(self, add_on: ManagedClusterAddOn, leadership: Leadership) -> None:
        meta = add_on.metadata
        if meta.deletionTimestamp is None or names.PRE_DELETE not in meta.finalizers:
            return
        kept = [each for each in meta.finalizers if each != names.PRE_DELETE]
        await self._finalize(add_on, kept, leadership)

    async def _finalize(
        self, add_on: ManagedClusterAddOn, finalizers: list[str], leadership: Leadership
    ) -> None:
        async with leadership.batch():
            try:
                await self._writer.patch(
                    MANAGED_CLUSTER_ADD_ONS,
                    add_on.metadata,
                    {"metadata": {"finalizers": finalizers}},
                    leadership=leadership,
                )
            except NotFound:
                return

    async def _adopt(self, add_on: ManagedClusterAddOn, leadership: Leadership) -> bool:
        """Set the owner, also of an add-on that a user created. Return whether it was missing."""
        offer = self._index.offers.get(add_on.metadata.name)
        if offer is None or offer.metadata.deletionTimestamp is not None:
            return False
        owners = add_on.metadata.ownerReferences
        if any(each.uid == offer.metadata.uid for each in owners):
            return False
        kind, kept = owner(offer, controller=False), [encode(each) for each in owners]
        # With the uid of an earlier owner of the same name, the garbage collector would delete this object.
        kept = [each for each in kept if (each["kind"], each["name"]) != (kind["kind"], offer.metadata.name)]
        async with leadership.batch():
            await self._writer.patch(
                MANAGED_CLUSTER_ADD_ONS,
                add_on.metadata,
                {"metadata": {"ownerReferences": [*kept, kind]}},
                leadership=leadership,
            )
        return True

    async def _write(
        self, add_on: ManagedClusterAddOn, wanted: ManagedClusterAddOnStatus, leadership: Leadership
    ) -> None:
        before, after = _plain(add_on.status), _plain(wanted)
        changed: dict[str, Any] = {
            key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)
        }
        if not changed:
            return
        async with leadership.batch():
            await self._writer.patch(
                MANAGED_CLUSTER_ADD_ONS,
                add_on.metadata,
                {"status": changed},
                leadership=leadership,
                subresource="status",
            )


def _rendered(
    add_on: ManagedClusterAddOn, template: AddOnTemplate, found: Configs, draft: _StatusDraft
) -> Rendered | None:
    try:
        return render(
            template,
            add_on=add_on.metadata.name,
            cluster=add_on.metadata.namespace,
            namespace=add_on.spec.installNamespace or INSTALL_NAMESPACE,
            config=None if found.deployment is None else found.deployment.spec,
        )
    except TemplateError as error:
        message = f"AddOnTemplate {template.metadata.name}: {error}"
        draft.set(conditions.no(conditions.MANIFEST_APPLIED, conditions.TEMPLATE_INVALID, message))
        return None


def _namespace(add_on: ManagedClusterAddOn, rendered: Rendered) -> str:
    return rendered.moved_to or add_on.spec.installNamespace or INSTALL_NAMESPACE


def _keyed(found: Configs) -> dict[str, str]:
    hashes = found.hashes()
    return {
        configs.key(each): hashes[each.group, each.resource]
        for each in found.references
        if (each.group, each.resource) in hashes
    }


def _bound(wanted: RoleBinding, seen: RoleBinding) -> bool:
    """Whether an object is as desired, regardless of labels and owners that other clients added."""
    owners = {each.uid for each in seen.metadata.ownerReferences}
    return (
        wanted.metadata.labels.items() <= seen.metadata.labels.items()
        and {each.uid for each in wanted.metadata.ownerReferences} <= owners
        and structs.replace(seen, metadata=wanted.metadata) == wanted
    )


def _progress(applied: Condition, *, newest: bool) -> Condition:
    kind = conditions.PROGRESSING
    if applied.reason == conditions.NOT_APPLIED:
        return conditions.no(kind, conditions.FAILED, applied.message)
    if applied.status == TRUE and newest:
        return conditions.no(kind, conditions.COMPLETED, conditions.COMPLETED_MESSAGE)
    return conditions.yes(kind, conditions.IN_PROGRESS, conditions.PROGRESS_MESSAGE)


def _plain(status: ManagedClusterAddOnStatus) -> dict[str, Any]:
    return encode(status)
