"""`fairway addon install --wait`: until the agents run on all clusters that are chosen, and are the newest.

After an upgrade the agents of before are available, too. That theirs is the new state of a configuration is known by
its hash in the status of the add-on: it must be another one than before, and be applied. What a hash is made of is the
business of whoever looks after add-ons on the hub.
"""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fairway.api.addon import ConfigReference, ManagedClusterAddOn
from fairway.api.decision import PlacementDecision
from fairway.api.meta import TRUE, find_condition
from fairway.api.placement import PLACEMENT_LABEL, Placement
from fairway.cli.addon.objects import Plan
from fairway.cli.addon.status import NOBODY_CHOSEN, unavailable
from fairway.cli.addon.writer import KINDS, Step
from fairway.cli.client.objects import listed
from fairway.cli.client.session import NOTE
from fairway.cli.client.wait import wait
from fairway.cli.client.watch import Feed
from fairway.cli.output import say
from fairway.kube import (
    MANAGED_CLUSTER_ADD_ONS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    Client,
    Deleted,
    NotFound,
    Updated,
)
from fairway.kube.change import Change
from fairway.kube.resource import Key

SETTLE_SECONDS: Final = 2.0
"""For a Placement that was there and chooses otherwise now, to be decided anew."""
PROGRESSING: Final = "Progressing"

NOT_DECIDED: Final = (
    "nobody has decided about it: does `fairway run`, or OCM's placement controller, run on the hub?"
)
NOT_NEWEST: Final = "the agent there is not the newest yet"

Config = tuple[str, str, str]
"""Plural, namespace and name."""
Hashes = Mapping[tuple[str, Config], str]
"""Of what agents shall be made of, by cluster and configuration."""


async def hashes(client: Client, plan: Plan) -> Hashes:
    """As they are now; before an installation, to tell the state after it from."""
    try:
        there = await listed(client, MANAGED_CLUSTER_ADD_ONS)
    except NotFound:
        return {}  # no hub for add-ons, as the installation will say
    return {
        (each.metadata.namespace, _config(reference)): _wanted(reference)
        for each in there
        if each.metadata.name == plan.name
        for reference in each.status.configReferences
    }


async def running(
    client: Client, plan: Plan, steps: Sequence[Step], *, before: Hashes, seconds: float
) -> None:
    """``steps`` are those of the installation. Raises NegativeAnswerError when the time is up, KubeErrors."""
    changed = frozenset(
        (KINDS[each.kind].plural, each.namespace, each.name) for each in steps if each.respecified
    )
    scene = Scene(plan=plan, changed=changed, before=before)
    namespace, placement = plan.chosen_by
    if (PLACEMENTS.plural, namespace, placement) in changed:
        # Nothing says which state of a Placement a decision is of.
        await asyncio.sleep(SETTLE_SECONDS)
    feeds = (
        Feed(resource=PLACEMENTS, namespace=namespace, fields=f"metadata.name={placement}"),
        Feed(resource=PLACEMENT_DECISIONS, namespace=namespace, labels=f"{PLACEMENT_LABEL}={placement}"),
        Feed(resource=MANAGED_CLUSTER_ADD_ONS, fields=f"metadata.name={plan.name}"),
    )
    await wait(client, feeds, hear=scene.hear, look=scene.missing, seconds=seconds)
    if not scene.clusters():
        where = f"by Placement {namespace}/{placement}"
        say(NOTE.format(text=NOBODY_CHOSEN.format(name=plan.name, where=where)), stream=sys.stderr)


@dataclass(slots=True, kw_only=True)
class Scene:
    """What was heard of an add-on: the Placement that chooses for it, what that chose, and what is there."""

    plan: Plan
    changed: frozenset[Config] = frozenset()
    before: Hashes = field(default_factory=dict)
    placement: Placement | None = None
    pages: dict[Key, PlacementDecision] = field(default_factory=dict)
    add_ons: dict[str, ManagedClusterAddOn] = field(default_factory=dict)

    def hear(self, change: Change[Any]) -> None:
        new = change.new if isinstance(change, Updated) else change.object
        there = None if isinstance(change, Deleted) else new
        match new:
            case Placement():
                self.placement = there
            case PlacementDecision():
                _keep(self.pages, (new.metadata.namespace, new.metadata.name), there)
            case ManagedClusterAddOn():
                _keep(self.add_ons, new.metadata.namespace, there)

    def _chosen(self) -> set[str]:
        return {each.clusterName for page in self.pages.values() for each in page.status.decisions}

    def _is_decided(self) -> bool:
        """A page of decisions is there before it says anything."""
        if self.placement is None or not self.placement.status.conditions:
            return False
        return len(self._chosen()) >= self.placement.status.numberOfSelectedClusters

    def clusters(self) -> list[str]:
        return sorted({*self._chosen(), *self.add_ons})

    def missing(self) -> dict[str, str]:
        if not self._is_decided():
            return {"Placement {}/{}".format(*self.plan.chosen_by): NOT_DECIDED}
        found = {each: next(self._trouble(each), "") for each in self.clusters()}
        return {f"cluster {cluster}": why for cluster, why in found.items() if why}

    def _trouble(self, cluster: str) -> Iterator[str]:
        add_on = self.add_ons.get(cluster)
        yield from unavailable(add_on)
        if add_on is None:
            return
        progress = find_condition(add_on.status.conditions, PROGRESSING)
        if progress is not None and progress.status == TRUE:
            yield f"{progress.reason}: {progress.message}"
        if any(self._is_old(cluster, each) for each in add_on.status.configReferences):
            yield NOT_NEWEST

    def _is_old(self, cluster: str, reference: ConfigReference) -> bool:
        config, wanted = _config(reference), _wanted(reference)
        applied = reference.lastAppliedConfig
        if wanted and applied is not None and applied.specHash != wanted:
            return True
        return config in self.changed and self.before.get((cluster, config)) == wanted


def _config(reference: ConfigReference) -> Config:
    return reference.resource, reference.namespace, reference.name


def _wanted(reference: ConfigReference) -> str:
    desired = reference.desiredConfig
    return "" if desired is None else desired.specHash


def _keep(kept: dict[Any, Any], key: object, there: object | None) -> None:
    if there is None:
        kept.pop(key, None)
    else:
        kept[key] = there
