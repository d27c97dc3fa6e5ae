"""`fairway addon install --wait`: wait until up-to-date agents run on all selected clusters.

After an upgrade, the old agents are available, too. An agent is up to date when the hash of each changed configuration
in the add-on's status differs from the hash before the installation and is reported as applied.
"""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fairway.api.addon import ConfigReference, ManagedClusterAddOn
from fairway.api.decision import PlacementDecision
from fairway.api.placement import PLACEMENT_LABEL, Placement
from fairway.api.resources import MANAGED_CLUSTER_ADD_ONS, PLACEMENT_DECISIONS, PLACEMENTS
from fairway.cli.addon.status import NONE_SELECTED, unavailable
from fairway.cli.addon.writer import KINDS, Step
from fairway.cli.client.objects import listed
from fairway.cli.client.session import NOTE
from fairway.cli.client.wait import wait
from fairway.cli.client.watch import Feed
from fairway.cli.text import say
from fairway.providers.addon import Plan
from kubewire.api.meta import TRUE, find_condition
from kubewire.api.resource import Key
from kubewire.client import Client, Deleted, NotFound
from kubewire.client.change import Change

SETTLE_SECONDS: Final = 2.0
"""Time for the placement controller to decide a changed Placement again."""
PROGRESSING: Final = "Progressing"

NOT_DECIDED: Final = "not decided yet: is `fairway run`, or OCM's placement controller, running on the hub?"
NOT_NEWEST: Final = "its agent is not up to date yet"
REACHED: Final = "add-on {name} available on {count} of {count} clusters"

Config = tuple[str, str, str]
"""Plural, namespace and name."""
Hashes = Mapping[tuple[str, Config], str]
"""Hashes of the desired configurations, by cluster and configuration."""


async def hashes(client: Client, plan: Plan) -> Hashes:
    """Return the current hashes, to compare with those after an installation."""
    try:
        there = await listed(client, MANAGED_CLUSTER_ADD_ONS)
    except NotFound:
        return {}  # a hub without add-ons, which the installation reports
    return {
        (add_on.metadata.namespace, _config(reference)): _wanted(reference)
        for add_on in there
        if add_on.metadata.name == plan.name
        for reference in add_on.status.configReferences
    }


async def wait_running(
    client: Client, plan: Plan, steps: Sequence[Step], *, before: Hashes, seconds: float
) -> None:
    """Wait for the agents. ``steps`` are those of the installation.

    Raises NegativeAnswerError on timeout, and KubeErrors.
    """
    changed = frozenset(
        (KINDS[step.kind].plural, step.namespace, step.name) for step in steps if step.respecified
    )
    state = AddOnState(plan=plan, changed=changed, before=before)
    namespace, placement = plan.placement_key
    if (PLACEMENTS.plural, namespace, placement) in changed:
        # Decisions do not record the generation of their Placement.
        await asyncio.sleep(SETTLE_SECONDS)
    feeds = (
        Feed(resource=PLACEMENTS, namespace=namespace, fields=f"metadata.name={placement}"),
        Feed(resource=PLACEMENT_DECISIONS, namespace=namespace, labels=f"{PLACEMENT_LABEL}={placement}"),
        Feed(resource=MANAGED_CLUSTER_ADD_ONS, fields=f"metadata.name={plan.name}"),
    )
    await wait(
        client,
        feeds,
        observe=state.observe,
        missing=state.missing,
        seconds=seconds,
        reached=lambda: (
            REACHED.format(name=plan.name, count=len(state.clusters())) if state.clusters() else ""
        ),
    )
    if not state.clusters():
        where = f"by Placement {namespace}/{placement}"
        say(NOTE.format(text=NONE_SELECTED.format(name=plan.name, where=where)), stream=sys.stderr)


@dataclass(slots=True, kw_only=True)
class AddOnState:
    """The observed state of an add-on: its Placement, the decisions, and its ManagedClusterAddOns."""

    plan: Plan
    changed: frozenset[Config] = frozenset()
    before: Hashes = field(default_factory=dict)
    placement: Placement | None = None
    pages: dict[Key, PlacementDecision] = field(default_factory=dict)
    add_ons: dict[str, ManagedClusterAddOn] = field(default_factory=dict)

    def observe(self, change: Change[Any]) -> None:
        new = change.object
        current = None if isinstance(change, Deleted) else new
        match new:
            case Placement():
                self.placement = current
            case PlacementDecision():
                _keep(self.pages, (new.metadata.namespace, new.metadata.name), current)
            case ManagedClusterAddOn():
                _keep(self.add_ons, new.metadata.namespace, current)

    def _selected(self) -> set[str]:
        return {decision.clusterName for page in self.pages.values() for decision in page.status.decisions}

    def _is_decided(self) -> bool:
        """Whether all decisions are written: a PlacementDecision is created before its status is."""
        if self.placement is None or not self.placement.status.conditions:
            return False
        return len(self._selected()) >= self.placement.status.numberOfSelectedClusters

    def clusters(self) -> list[str]:
        return sorted({*self._selected(), *self.add_ons})

    def missing(self) -> dict[str, str]:
        if not self._is_decided():
            return {"Placement {}/{}".format(*self.plan.placement_key): NOT_DECIDED}
        problems = {cluster: next(self._problems(cluster), "") for cluster in self.clusters()}
        return {f"cluster {cluster}": why for cluster, why in problems.items() if why}

    def _problems(self, cluster: str) -> Iterator[str]:
        add_on = self.add_ons.get(cluster)
        yield from unavailable(add_on)
        if add_on is None:
            return
        progress = find_condition(add_on.status.conditions, PROGRESSING)
        if progress is not None and progress.status == TRUE:
            yield f"{progress.reason}: {progress.message}"
        if any(self._is_outdated(cluster, reference) for reference in add_on.status.configReferences):
            yield NOT_NEWEST

    def _is_outdated(self, cluster: str, reference: ConfigReference) -> bool:
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


def _keep(kept: dict[Any, Any], key: object, current: object | None) -> None:
    if current is None:
        kept.pop(key, None)
    else:
        kept[key] = current
