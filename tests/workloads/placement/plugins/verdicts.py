"""A small hub with one bound set, and the verdict for one placement."""

from fairway.api.placement import PlacementSpec
from fairway.engine import cycle
from fairway.engine.trace import HostTrace, Trace
from fairway.hosts.instant import Micros
from fairway.testing.builders import binding, cluster_set, placement
from fairway.whatif.world import World
from fairway.workloads.placement import default_profile
from fairway.workloads.placement.verdict import Verdict
from strategies import NOW_MICROS

KEY = ("ns1", "p1")


def hub(*objects: object, spec: PlacementSpec | None = None) -> World:
    """Return a hub with the set ``default`` bound to ``ns1``, the namespace of placement ``p1``."""
    return World([cluster_set("default"), binding("default"), *objects, placement(spec=spec)])


def look(*objects: object, spec: PlacementSpec | None = None, now: Micros = NOW_MICROS) -> Verdict:
    """Return the verdict, and check that per-host and whole-fleet evaluation agree."""
    world = hub(*objects, spec=spec)
    verdict = world.decide(KEY, now=now)
    workload = world.workload(KEY)
    slow = cycle.run(world.fleet.snapshot(), workload, default_profile(), now=now, whole_fleet=False)
    assert (slow.selected, slow.status) == (verdict.outcome.selected, verdict.outcome.status)
    assert slow.totals_by_name() == verdict.outcome.totals_by_name()
    return verdict


def selected(*objects: object, spec: PlacementSpec | None = None, now: Micros = NOW_MICROS) -> list[str]:
    return look(*objects, spec=spec, now=now).outcome.selected


def scores_of(verdict: Verdict, plugin: str) -> dict[str, int]:
    """Return one prioritizer's known scores."""
    details = verdict.outcome.details
    names = verdict.outcome.snapshot.hosts.names
    (scored,) = [scored for scored in details.scored if scored.plugin == plugin]
    return {
        names[row]: score
        for at, (row, score) in enumerate(zip(details.rows.tolist(), scored.scores.tolist(), strict=True))
        if scored.present is None or scored.present[at]
    }


def trace(verdict: Verdict, host: str) -> HostTrace:
    return Trace(verdict.outcome).host(host)


def refusal(verdict: Verdict, host: str) -> tuple[str, str]:
    """Return the plugin that rejected the host, and its message."""
    seen = trace(verdict, host)
    return seen.rejected_by, seen.reason
