"""Spread constraints over keys that no cluster has, or that cannot be satisfied."""

from collections.abc import Iterator
from typing import Final

from fairway.api.placement import Placement
from fairway.engine import cycle
from fairway.hosts import bitmap
from fairway.lint.finding import Finding, warning
from fairway.lint.scene import Scene
from fairway.lint.words import count, guess, some
from fairway.workloads.placement.plugins.spread import is_hard, spread_constraints
from kubewire.api.selector import quote

KEY_UNKNOWN: Final = warning("spread-key-unknown", "No candidate has the label or claim to spread over.")
CANNOT_PLACE: Final = warning(
    "spread-cannot-place", "DoNotSchedule leaves out clusters that are wanted and would qualify."
)

RULES: Final = (KEY_UNKNOWN, CANNOT_PLACE)

_PATH: Final = "spec.spreadPolicy.spreadConstraints"


def check(scene: Scene) -> Iterator[Finding]:
    if not scene.populated:
        return
    for placement in scene.placements:
        constraints = placement.spec.spreadPolicy.spreadConstraints
        if constraints and bitmap.any_of(scene.pool(placement).eligible):
            yield from _keys(scene, placement)
            yield from _room(scene, placement)


def _keys(scene: Scene, placement: Placement) -> Iterator[Finding]:
    matching = scene.pool(placement).matching
    if not bitmap.any_of(matching):
        return
    for at, constraint in enumerate(scene.workload(placement).derive(spread_constraints)):
        if bitmap.any_of(matching & ~scene.snapshot.codes(constraint.column).bitmap(0)):
            continue
        effect = "no cluster can be selected" if constraint.hard else "the constraint spreads nothing"
        yield KEY_UNKNOWN.at(
            placement,
            f"{_PATH}[{at}].topologyKey",
            f"no candidate has a {constraint.kind} {quote(constraint.key)}, so {effect}",
            guess(
                constraint.key,
                scene.keys(constraint.kind) - {constraint.key},
                otherwise=f"put the {constraint.kind} on clusters",
            ),
        )


def _room(scene: Scene, placement: Placement) -> Iterator[Finding]:
    workload = scene.workload(placement)
    pool = scene.pool(placement)
    if not is_hard(workload.derive(spread_constraints)) or not bitmap.any_of(pool.surviving):
        return
    outcome = cycle.run(scene.snapshot, workload, scene.world.profile, now=scene.now)
    if outcome.status.aborts:
        return
    possible = len(outcome.details.rows)
    wanted = possible if workload.wanted is None else min(workload.wanted, possible)
    selected = len(outcome.selected_rows)
    if selected < wanted:
        left = sorted({*scene.names(pool.surviving)} - set(outcome.selected))
        yield CANNOT_PLACE.at(
            placement,
            _PATH,
            f"{selected} of {count(wanted, 'cluster')} can be selected without exceeding maxSkew; "
            f"left out {'is' if len(left) == 1 else 'are'} {some(left)}",
            "raise maxSkew, use ScheduleAnyway, or add clusters where there are few",
        )
