"""Reconcile one add-on on one cluster: permissions on the hub, the ManifestWork of its agent, and its status."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import structs

from fairway.api.addon import (
    CUSTOMIZED_HEALTH,
    INSTALL_NAMESPACE,
    ClusterManagementAddOn,
    ConfigGroupResource,
    HealthCheck,
    ManagedClusterAddOn,
    ManagedClusterAddOnStatus,
)
from fairway.api.addon_template import AddOnTemplate
from fairway.api.cluster import ManagedCluster
from fairway.api.resources import MANAGED_CLUSTER_ADD_ONS, MANIFEST_WORKS
from fairway.api.work import ManifestWork
from fairway.controllers.addons import (
    conditions,
    configs,
    health,
    names,
    references,
    registration,
    rollouts,
    works,
)
from fairway.controllers.addons.configs import ConfigError, Configs, UnusableConfig
from fairway.controllers.addons.index import AddOnIndex
from fairway.controllers.addons.installation import copied_annotations, is_installed, is_self_managed, owner
from fairway.controllers.addons.offer_status import OfferReporter
from fairway.controllers.addons.rendering import Rendered, TemplateError, render
from fairway.controllers.addons.rollout_plan import Phase
from fairway.controllers.kinds import ROLE_BINDINGS, RoleBinding
from fairway.controllers.runtime.writer import Writer, truncate, with_condition
from kubewire.api.encoding import encode
from kubewire.api.event import WARNING
from kubewire.api.meta import TRUE, Condition, find_condition
from kubewire.client import ApiError, BadRequest, Clock, Conflict, Invalid, NotFound, Recorder
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

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
        for condition in self.conditions:
            kept = with_condition(kept, condition, clock=self.clock)
        return structs.replace(self.status, conditions=kept)


class Deployer:
    def __init__(self, known: AddOnIndex, writer: Writer, *, offers: OfferReporter, clock: Clock) -> None:
        self._index, self._writer, self._offers, self._clock = known, writer, offers, clock
        self.recorder: Recorder | None = None
        """Only while the controller runs."""
        self._throttle = LogThrottle(log, every=600.0, clock=clock.monotonic)

    async def deploy(self, cluster_name: str, name: str) -> None:
        """Write the status even if the hub rejected a write; then raise that error, so that the key is retried."""
        add_on = self._index.add_ons.get(name, namespace=cluster_name)
        if add_on is None:
            return
        cluster, offer = self._index.cluster(cluster_name), self._index.offers.get(name)
        if cluster is None:
            await self._revoke_rights(add_on)
            await self._release(add_on)
            return
        if offer is not None and is_self_managed(offer):
            return
        if not cluster.spec.hubAcceptsClient:
            # Agents of add-ons have their own certificates, which may be valid for longer than the cluster's.
            await self._revoke_rights(add_on)
        if add_on.metadata.deletionTimestamp is not None:
            if (
                offer is not None
                and not references.has_template(offer)
                and self._index.accepted(cluster_name)
            ):
                return  # its own manager has set the finalizer, and runs the hook
            if self._index.accepted(cluster_name):
                await self._end(add_on, cluster)
            else:
                await self._release(add_on)  # its work agent has no access to works
            return
        if cluster.metadata.deletionTimestamp is not None or not self._index.accepted(cluster_name):
            return
        if await self._adopt(add_on, cluster):
            return  # the stored object is outdated now; the watch event requeues it
        draft = _StatusDraft(add_on.status, self._clock)
        try:
            await self._deploy(add_on, draft)
        finally:
            if (silent := health.cluster_silent(cluster)) is not None:
                draft.set(silent)
            if not draft.outdated:
                await self._write(add_on, draft.result())

    async def _deploy(self, add_on: ManagedClusterAddOn, draft: _StatusDraft) -> None:
        offer = self._index.offers.get(add_on.metadata.name)
        if offer is None:
            return  # no administrator has offered the add-on
        if not references.has_template(offer):
            self._follow(add_on, offer, draft)
            return
        configured = self._configured(add_on, draft)
        if configured is None or configured.template is None:
            return
        rendered = _rendered(add_on, configured.template, configured, draft)
        if rendered is None:
            return
        hashes = _keyed(configured)
        wanted = works.deployed(add_on, configured.template, rendered, hashes=hashes)
        if self._is_held(add_on, wanted, draft):
            return
        # The finalizer before the work: an add-on that is deleted in between would otherwise skip its hook.
        if await self._sync_hook_finalizer(add_on, rendered):
            draft.outdated = True
            return
        # The rights before the work, so that the agent in the work has them when it starts. A role that is missing does
        # not keep back the work: an agent may run without it, and the condition names it.
        registration_error = await self._register(add_on, configured.template, draft)
        work, refused = await self._apply(wanted, draft)
        if refused is None:
            self._report(add_on, configured, work, hashes, draft)
        draft.status = structs.replace(
            draft.status,
            namespace=_namespace(add_on, rendered),
            registrations=registration.registrations(
                configured.template, cluster=add_on.metadata.namespace, add_on=add_on.metadata.name
            ),
            healthCheck=HealthCheck(mode=CUSTOMIZED_HEALTH),
        )
        # What the hub has found invalid stays invalid until an object changes, which requeues the key.
        if (failure := refused or registration_error) is not None and not isinstance(
            failure, Invalid | BadRequest
        ):
            raise failure

    def _follow(
        self, add_on: ManagedClusterAddOn, offer: ClusterManagementAddOn, draft: _StatusDraft
    ) -> None:
        """Give the add-on's own manager the configurations to deploy, and report what it has deployed."""
        if not references.is_current(offer):
            return  # its next status requeues the add-on
        placement = self._index.effective_placement(offer, add_on.metadata.namespace)
        wanted = references.desired(add_on, references.of_placement(offer, placement))
        kind, configured = conditions.CONFIGURED, True
        if references.member_of(add_on, wanted).phase is Phase.TO_APPLY:
            strategies = (
                strategy for strategy in offer.spec.installStrategy.placements if rollouts.is_staged(strategy)
            )
            staged = any((strategy.namespace, strategy.name) == placement for strategy in strategies)
            configured = (
                not staged
                or placement is None
                or self._offers.releases(offer, placement, add_on.metadata.namespace)
            )
            if configured:
                merged = references.merged(add_on, wanted)
                draft.status = structs.replace(draft.status, configReferences=merged)
        if configured:
            reason, message = conditions.CONFIGURATIONS_CONFIGURED, conditions.CONFIGURED_MESSAGE
            draft.set(conditions.yes(kind, reason, message))
        else:
            reason, message = conditions.CONFIGURATIONS_NOT_CONFIGURED, conditions.NOT_CONFIGURED_MESSAGE
            draft.set(conditions.no(kind, reason, message))
        progress = references.progress(
            structs.replace(add_on, status=draft.status), self._index.works_of(add_on)
        )
        draft.set(progress)
        if progress.reason == conditions.COMPLETED:
            applied = references.as_applied(draft.status.configReferences)
            draft.status = structs.replace(draft.status, configReferences=applied)

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
            resolved = configs.resolve(
                self._index.references(add_on),
                add_on=add_on.metadata.name,
                templates=self._index.templates.store,
                deployments=self._index.deployments.store,
            )
        except ConfigError as error:
            is_unusable = isinstance(error, UnusableConfig)
            reason = (
                conditions.CONFIGURATION_UNSUPPORTED if is_unusable else conditions.CONFIGURATION_NOT_FOUND
            )
            draft.set(conditions.no(kind, reason, str(error)))
            return None
        if resolved.template is None:
            return resolved
        supported = () if offer is None else offer.spec.supportedConfigs
        draft.status = structs.replace(
            draft.status,
            supportedConfigs=tuple(
                ConfigGroupResource(group=config.group, resource=config.resource) for config in supported
            ),
        )
        draft.set(conditions.yes(kind, conditions.CONFIGURATIONS_CONFIGURED, conditions.CONFIGURED_MESSAGE))
        return resolved

    def _is_held(self, add_on: ManagedClusterAddOn, wanted: ManifestWork, draft: _StatusDraft) -> bool:
        """Return whether a rollout strategy keeps the cluster's configuration, work and rights as they are.

        The agent in the work uses the rights that it was deployed with, so these do not follow the newest template.
        """
        offer, meta = self._index.offers.get(add_on.metadata.name), add_on.metadata
        assert offer is not None
        strategy = rollouts.strategy_of(offer, self._index.selecting_placements(offer, meta.namespace))
        work = self._index.work(meta.namespace, wanted.metadata.name)
        if strategy is None or not rollouts.is_changed(add_on, wanted=wanted, deployed=work):
            return False
        assert work is not None
        placement, kind = f"{strategy.namespace}/{strategy.name}", strategy.rolloutStrategy.type
        message = rollouts.HELD.format(offer=meta.name, placement=placement, type=kind)
        if not _is_reported_held(add_on):
            # Once for each cluster. Equal events about the add-on are counted, so that few are written.
            if self.recorder is not None:
                event = rollouts.EVENT.format(placement=placement, type=kind)
                self.recorder.event(offer, reason=conditions.ROLLOUT_HELD, message=event, type_=WARNING)
            arguments = meta.name, placement, kind, meta.namespace
            self._throttle.log(logging.WARNING, (meta.name, placement), rollouts.HELD_LOG, *arguments)
        draft.set(conditions.no(conditions.CONFIGURED, conditions.ROLLOUT_HELD, message))
        draft.set(conditions.no(conditions.PROGRESSING, conditions.ROLLOUT_HELD, message))
        draft.set(health.manifests_applied(work, meta.name))
        draft.set(health.available(meta.name, work))
        applied = works.hashes_of(work) if works.applied(work) else {}
        draft.status = structs.replace(
            draft.status, configReferences=rollouts.kept(draft.status.configReferences, applied=applied)
        )
        return True

    async def _register(
        self, add_on: ManagedClusterAddOn, template: AddOnTemplate, draft: _StatusDraft
    ) -> ApiError | None:
        kind = conditions.REGISTRATION_APPLIED
        roles = registration.roles(template)
        wanted = [registration.binding(add_on, role, first=not index) for index, role in enumerate(roles)]
        # First what the template no longer has: a user who removes a role must not wait for a role that fails.
        await self._revoke_rights(add_on, but=frozenset(binding.metadata.name for binding in wanted))
        if not template.spec.registration:
            draft.set(conditions.yes(kind, conditions.NO_REGISTRATION, conditions.NOT_REGISTERED_MESSAGE))
            return None
        for role, binding in zip(roles, wanted, strict=True):
            try:
                await self._bind(binding)
            except Conflict:
                raise
            except ApiError as error:
                text = conditions.ROLE_MISSING if isinstance(error, NotFound) else conditions.BIND_REFUSED
                message = text.format(role=role, why=error.message)
                draft.set(conditions.no(kind, conditions.PERMISSION_FAILED, message))
                return error
        if message := registration.unsupported(template, add_on.metadata.name):
            draft.set(conditions.no(kind, conditions.PERMISSION_UNSUPPORTED, message))
            return None
        draft.set(conditions.yes(kind, conditions.PERMISSION_APPLIED, conditions.REGISTERED_MESSAGE))
        return None

    async def _revoke_rights(self, add_on: ManagedClusterAddOn, *, but: frozenset[str] = frozenset()) -> None:
        """Remove rights on the hub that the agent no longer needs."""
        surplus = [binding for binding in self._index.granted(add_on) if binding.metadata.name not in but]
        if not surplus:
            return
        async with self._writer.batch():
            for binding in surplus:
                try:
                    await self._writer.delete(ROLE_BINDINGS, binding.metadata)
                except NotFound:
                    continue

    async def _bind(self, wanted: RoleBinding) -> None:
        meta = wanted.metadata
        seen = self._index.bindings.get(meta.name, namespace=meta.namespace)
        if seen is not None and _bound(wanted, seen):
            return
        async with self._writer.batch():
            if seen is not None and seen.role_ref != wanted.role_ref:
                # The role of a binding is immutable, so replace the binding.
                await self._writer.delete(ROLE_BINDINGS, seen.metadata)
            await self._writer.apply(ROLE_BINDINGS, msgspec.to_builtins(wanted))

    async def _apply(
        self, wanted: ManifestWork, draft: _StatusDraft
    ) -> tuple[ManifestWork | None, ApiError | None]:
        seen = self._index.work(wanted.metadata.namespace, wanted.metadata.name)
        if seen is not None and (works.met_by(wanted, seen) or seen.metadata.deletionTimestamp is not None):
            return seen, None
        try:
            async with self._writer.batch():
                written = await self._writer.apply(MANIFEST_WORKS, works.body(wanted))
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
        configured: Configs,
        work: ManifestWork | None,
        hashes: Mapping[str, str],
        draft: _StatusDraft,
    ) -> None:
        name = add_on.metadata.name
        applied = works.hashes_of(work) if work is not None and works.applied(work) else {}
        manifests = health.manifests_applied(work, name)
        draft.set(manifests)
        draft.set(health.available(name, work))
        draft.set(_progress(manifests, newest=applied == hashes))
        draft.status = structs.replace(
            draft.status,
            configReferences=configs.references_for_status(
                configured, applied=applied, before=draft.status.configReferences
            ),
        )

    # Ending

    async def _sync_hook_finalizer(self, add_on: ManagedClusterAddOn, rendered: Rendered) -> bool:
        """Keep a finalizer on an add-on with a pre-delete hook. Return whether it changed."""
        held = names.PRE_DELETE in add_on.metadata.finalizers
        if held == bool(rendered.hooks):
            return False
        kept = [finalizer for finalizer in add_on.metadata.finalizers if finalizer != names.PRE_DELETE]
        await self._finalize(add_on, kept if held else [*kept, names.PRE_DELETE])
        return True

    async def _end(self, add_on: ManagedClusterAddOn, cluster: ManagedCluster) -> None:
        """Run the pre-delete hook while its template is known; otherwise do not wait."""
        if names.PRE_DELETE not in add_on.metadata.finalizers:
            return  # the hub's garbage collector does the rest
        draft = _StatusDraft(add_on.status, self._clock)
        configured = self._configured(add_on, draft)
        rendered: Rendered | None = None
        if configured is not None and configured.template is not None:
            rendered = _rendered(add_on, configured.template, configured, draft)
        wanted = None if rendered is None else works.pre_delete(add_on, rendered)
        work = self._index.work(cluster.metadata.name, names.pre_delete_work(add_on.metadata.name))
        if wanted is not None and work is None:
            work, refused = await self._apply(wanted, draft)
            if refused is not None:
                await self._write(add_on, draft.result())
                raise refused
        if work is None or works.is_hook_complete(work):
            await self._release(add_on)
            return
        message = conditions.HOOK_MESSAGE.format(work=work.metadata.name)
        draft.set(conditions.no(conditions.HOOK_COMPLETED, conditions.HOOK_RUNS, message))
        await self._write(add_on, draft.result())

    async def _release(self, add_on: ManagedClusterAddOn) -> None:
        meta = add_on.metadata
        if meta.deletionTimestamp is None or names.PRE_DELETE not in meta.finalizers:
            return
        kept = [finalizer for finalizer in meta.finalizers if finalizer != names.PRE_DELETE]
        await self._finalize(add_on, kept)

    async def _finalize(self, add_on: ManagedClusterAddOn, finalizers: list[str]) -> None:
        async with self._writer.batch():
            try:
                await self._writer.patch(
                    MANAGED_CLUSTER_ADD_ONS, add_on.metadata, {"metadata": {"finalizers": finalizers}}
                )
            except NotFound:
                return

    async def _adopt(self, add_on: ManagedClusterAddOn, cluster: ManagedCluster) -> bool:
        """Set the owner, also of an add-on that a user created, and the cluster's annotations of an installed one.

        Return whether something was missing.
        """
        offer = self._index.offers.get(add_on.metadata.name)
        if offer is None or offer.metadata.deletionTimestamp is not None:
            return False
        owners = add_on.metadata.ownerReferences
        if any(reference.uid == offer.metadata.uid for reference in owners):
            return is_installed(add_on, offer) and await self._copy_annotations(add_on, cluster)
        kind, kept = owner(offer, controller=False), [encode(reference) for reference in owners]
        # With the uid of an earlier owner of the same name, the garbage collector would delete this object.
        kept = [
            reference
            for reference in kept
            if (reference["kind"], reference["name"]) != (kind["kind"], offer.metadata.name)
        ]
        async with self._writer.batch():
            await self._writer.patch(
                MANAGED_CLUSTER_ADD_ONS, add_on.metadata, {"metadata": {"ownerReferences": [*kept, kind]}}
            )
        return True

    async def _copy_annotations(self, add_on: ManagedClusterAddOn, cluster: ManagedCluster) -> bool:
        """Return whether they differed. Those that the cluster does not have are removed, as OCM does."""
        wanted, present = copied_annotations(cluster), copied_annotations(add_on)
        if wanted == present:
            return False
        changed: dict[str, str | None] = {**dict.fromkeys(present), **wanted}
        async with self._writer.batch():
            await self._writer.patch(
                MANAGED_CLUSTER_ADD_ONS, add_on.metadata, {"metadata": {"annotations": changed}}
            )
        return True

    async def _write(self, add_on: ManagedClusterAddOn, wanted: ManagedClusterAddOnStatus) -> None:
        before, after = _plain(add_on.status), _plain(wanted)
        changed: dict[str, Any] = {
            key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)
        }
        if not changed:
            return
        async with self._writer.batch():
            await self._writer.patch(
                MANAGED_CLUSTER_ADD_ONS,
                add_on.metadata,
                {"status": changed},
                subresource="status",
            )


def _rendered(
    add_on: ManagedClusterAddOn, template: AddOnTemplate, configured: Configs, draft: _StatusDraft
) -> Rendered | None:
    try:
        return render(
            template,
            add_on=add_on.metadata.name,
            cluster=add_on.metadata.namespace,
            namespace=add_on.spec.installNamespace or INSTALL_NAMESPACE,
            config=None if configured.deployment is None else configured.deployment.spec,
        )
    except TemplateError as error:
        message = f"AddOnTemplate {template.metadata.name}: {error}"
        draft.set(conditions.no(conditions.MANIFEST_APPLIED, conditions.TEMPLATE_INVALID, message))
        return None


def _namespace(add_on: ManagedClusterAddOn, rendered: Rendered) -> str:
    return rendered.moved_to or add_on.spec.installNamespace or INSTALL_NAMESPACE


def _keyed(configured: Configs) -> dict[str, str]:
    hashes = configured.hashes()
    return {
        configs.key(reference): hashes[reference.group, reference.resource]
        for reference in configured.references
        if (reference.group, reference.resource) in hashes
    }


def _bound(wanted: RoleBinding, seen: RoleBinding) -> bool:
    """Whether an object is as desired, regardless of labels and owners that other clients added."""
    owners = {reference.uid for reference in seen.metadata.ownerReferences}
    return (
        wanted.metadata.labels.items() <= seen.metadata.labels.items()
        and {reference.uid for reference in wanted.metadata.ownerReferences} <= owners
        and structs.replace(seen, metadata=wanted.metadata) == wanted
    )


def _is_reported_held(add_on: ManagedClusterAddOn) -> bool:
    configured = find_condition(add_on.status.conditions, conditions.CONFIGURED)
    return configured is not None and configured.reason == conditions.ROLLOUT_HELD


def _progress(applied: Condition, *, newest: bool) -> Condition:
    kind = conditions.PROGRESSING
    if applied.reason == conditions.NOT_APPLIED:
        return conditions.no(kind, conditions.FAILED, applied.message)
    if applied.status == TRUE and newest:
        return conditions.no(kind, conditions.COMPLETED, conditions.COMPLETED_MESSAGE)
    return conditions.yes(
        kind, conditions.IN_PROGRESS, conditions.PROGRESS_MESSAGE.format(why=conditions.WORK_NOT_READY)
    )


def _plain(status: ManagedClusterAddOnStatus) -> dict[str, Any]:
    return encode(status)
