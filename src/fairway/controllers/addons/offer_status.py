"""Report on a ClusterManagementAddOn which configurations it has, and how far each Placement is with them."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from fairway.api.addon import (
    PLACEMENTS,
    ClusterManagementAddOn,
    ClusterManagementAddOnStatus,
    ConfigSpecHash,
    InstallProgression,
    PlacementStrategy,
)
from fairway.api.resources import CLUSTER_MANAGEMENT_ADD_ONS
from fairway.controllers.addons import conditions, references
from fairway.controllers.addons.configs import DEPLOYMENTS, TEMPLATES, Kind, spec_hash
from fairway.controllers.addons.index import AddOnIndex, placements_of
from fairway.controllers.addons.installation import is_self_managed
from fairway.controllers.addons.references import Desired
from fairway.controllers.addons.rollout_plan import InvalidStrategy, Member, RolloutPlan, plan
from fairway.controllers.addons.rollouts import is_staged
from fairway.controllers.runtime.slicing import in_slices
from fairway.controllers.runtime.writer import Writer, truncate, with_condition
from fairway.hosts.steps import Steps, strides
from kubewire.api.encoding import encode
from kubewire.api.meta import Condition
from kubewire.api.resource import Key
from kubewire.client import Clock, NotFound

log: Final = logging.getLogger(__name__)

_TYPE: Final = conditions.PROGRESSING


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rollout:
    """The rollout of one add-on, by Placement."""

    basis: tuple[object, ...]
    plans: Mapping[Key, RolloutPlan]


@dataclass(slots=True)
class _Members:
    """The clusters for which a Placement's configurations are in effect."""

    selected: int
    owned: frozenset[str]
    desired: Desired
    members: dict[str, Member] = field(default_factory=dict)


class OfferReporter:
    def __init__(self, known: AddOnIndex, writer: Writer, *, clock: Clock) -> None:
        self._index, self._writer, self._clock = known, writer, clock
        self._rollouts: dict[str, _Rollout] = {}

    def releases(self, offer: ClusterManagementAddOn, placement: Key, cluster: str) -> bool:
        """Whether it is a cluster's turn to get the configurations that the status of the add-on has now.

        A plan that was made for other configurations releases no cluster: the next one is about to be made.
        """
        rollout = self._rollouts.get(offer.metadata.name)
        if rollout is None or rollout.basis != references.basis(offer):
            return False
        planned = rollout.plans.get(placement)
        return planned is not None and cluster in planned.listed

    async def report(self, name: str) -> tuple[frozenset[str], float | None]:
        """Return the clusters whose turn it is, and the seconds until a deadline or soak time ends."""
        offer = self._index.offers.get(name)
        if offer is None or offer.metadata.deletionTimestamp is not None:
            self._rollouts.pop(name, None)
            return frozenset(), None
        managed = not is_self_managed(offer)
        hash_of = self._hash_of if references.has_template(offer) else references.unknown_hash
        status = references.status_of(offer, hash_of, managed=managed)
        turns: frozenset[str] = frozenset()
        again: float | None = None
        if managed and offer.spec.installStrategy.type == PLACEMENTS:
            planned = structs.replace(offer, status=status)
            status, turns, again = await self._roll_out(planned)
        await self._write(offer, status)
        return turns, again

    def _hash_of(self, kind: Kind, config: ConfigSpecHash) -> str | None:
        if kind == TEMPLATES:
            template = self._index.templates.get(config.name)
            return "" if template is None else spec_hash(template.spec)
        if kind == DEPLOYMENTS:
            deployment = self._index.deployments.get(config.name, namespace=config.namespace)
            return "" if deployment is None else spec_hash(deployment.spec)
        return None

    async def _roll_out(
        self, offer: ClusterManagementAddOn
    ) -> tuple[ClusterManagementAddOnStatus, frozenset[str], float | None]:
        strategies = {
            (strategy.namespace, strategy.name): strategy
            for strategy in offer.spec.installStrategy.placements
        }
        now = self._clock.wall()
        plans: dict[Key, RolloutPlan] = {}
        progress: dict[Key, Condition] = {}
        turns: set[str] = set()
        rechecks: list[float] = []
        for placement, members in (await in_slices(self._members(offer), clock=self._clock)).items():
            try:
                planned = await self._plan(placement, strategies[placement], members)
            except InvalidStrategy as error:
                progress[placement] = conditions.no(_TYPE, conditions.STRATEGY_INVALID, truncate(str(error)))
                continue
            plans[placement] = planned
            progress[placement] = _condition(members, planned)
            if is_staged(strategies[placement]):  # others do not wait for a turn
                turns |= planned.released
            if planned.recheck is not None:
                rechecks.append(max((planned.recheck - now).total_seconds(), 0.0))
        # Kept with what it was planned for: ``releases`` must not apply it to configurations that came later.
        self._rollouts[offer.metadata.name] = _Rollout(basis=references.basis(offer), plans=plans)
        progressions = tuple(
            self._with_progress(progression, progress.get((progression.namespace, progression.name)))
            for progression in offer.status.installProgressions
        )
        status = structs.replace(offer.status, installProgressions=progressions)
        return status, frozenset(turns), min(rechecks, default=None)

    async def _plan(self, placement: Key, strategy: PlacementStrategy, placed: _Members) -> RolloutPlan:
        seen = self._index.placements.get(placement[1], namespace=placement[0])
        group_strategy = None if seen is None else seen.spec.decisionStrategy.groupStrategy
        steps = plan(
            strategy.rolloutStrategy,
            self._index.groups(placement),
            placed.members,
            now=self._clock.wall(),
            default_concurrency=None if group_strategy is None else group_strategy.clustersPerDecisionGroup,
        )
        return await in_slices(steps, clock=self._clock)

    def _members(self, offer: ClusterManagementAddOn) -> Steps[dict[Key, _Members]]:
        """By Placement that exists. Of several that select a cluster, the last one is in effect."""
        # A cluster belongs to one rollout only: two with different limits could release it twice.
        taken: frozenset[str] = frozenset()
        members: dict[Key, _Members] = {}
        for placement in reversed(placements_of(offer)):
            if placement not in self._index.placements.store:
                continue
            selected = self._index.selected_clusters(placement)
            members[placement] = _Members(
                len(selected), selected - taken, references.of_placement(offer, placement)
            )
            taken |= selected
        for placed in members.values():
            for part in strides(placed.owned):
                for cluster in part:
                    self._add(placed, offer, cluster)
                yield
        return members

    def _add(self, placed: _Members, offer: ClusterManagementAddOn, cluster: str) -> None:
        add_on = self._index.add_ons.get(offer.metadata.name, namespace=cluster)
        if add_on is None:
            return
        wanted = references.desired(add_on, placed.desired)
        placed.members[cluster] = references.member_of(add_on, wanted)

    def _with_progress(
        self, progression: InstallProgression, condition: Condition | None
    ) -> InstallProgression:
        if condition is None:
            return progression
        states = with_condition(progression.conditions, condition, clock=self._clock)
        configs = progression.configReferences
        if condition.reason == conditions.COMPLETED:
            configs = tuple(
                structs.replace(
                    reference,
                    lastAppliedConfig=reference.desiredConfig,
                    lastKnownGoodConfig=reference.desiredConfig,
                )
                for reference in configs
            )
        return structs.replace(progression, configReferences=configs, conditions=states)

    async def _write(self, offer: ClusterManagementAddOn, status: ClusterManagementAddOnStatus) -> None:
        if status == offer.status:
            return
        body = encode(status)
        # A field that became empty is not encoded, and a merge patch keeps what it does not name.
        before: Iterable[str] = encode(offer.status).keys() - body.keys()
        async with self._writer.batch():
            try:
                await self._writer.patch(
                    CLUSTER_MANAGEMENT_ADD_ONS,
                    offer.metadata,
                    {"status": {**dict.fromkeys(before), **body}},
                    subresource="status",
                )
            except NotFound:
                return


def _condition(placed: _Members, planned: RolloutPlan) -> Condition:
    counts = {
        "selected": placed.selected,
        "configured": len(placed.owned),
        "failed": planned.failed,
        "timed_out": len(planned.timed_out),
    }
    if planned.done == len(placed.owned) != 0:
        message = conditions.ROLLED_OUT.format(done=planned.done, **counts)
        return conditions.no(_TYPE, conditions.COMPLETED, message)
    # Also without clusters: a rollout to none proves nothing of the configurations.
    message = conditions.ROLLING_OUT.format(done=planned.done + len(planned.listed), **counts)
    return conditions.yes(_TYPE, conditions.IN_PROGRESS, message)
