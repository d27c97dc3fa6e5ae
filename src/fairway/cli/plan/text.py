"""A plan as text: the blast radius first, then each move with its reasons, then what follows."""

from collections.abc import Iterator, Sequence
from typing import Final

from fairway.cli.text import cell
from fairway.engine.outcome import term
from fairway.engine.trace import HostTrace
from fairway.whatif.fleet import FleetPlan, Move
from fairway.whatif.fleet.consequences import INSTALLED, REMAINS, REMOVED, Consequence

SHOWN: Final = 10
CHANGES_SHOWN: Final = 5
MORE: Final = "… and {count:,} more (--all shows them)"
NO_MOVES: Final = "No decision moves."
NOTHING_CHANGES: Final = "The fleet is like this already."
DUE: Final = "; due without the change, too"
EFFECTS: Final = {
    INSTALLED: "installed on {clusters}",
    REMOVED: "removed from {clusters}",
    REMAINS: "stays on {clusters}: it does not move by itself; plan its move with fairway hosting drain",
}


def lines(plan: FleetPlan, *, everything: bool) -> Iterator[str]:
    if not plan.changes:
        yield NOTHING_CHANGES
    yield from _first([change.description for change in plan.changes], CHANGES_SHOWN, everything=everything)
    yield ""
    if plan.moves:
        clusters, namespaces = len(plan.clusters_touched), len(plan.namespaces_touched)
        yield (
            f"{_count(len(plan.moves), 'decision')} of {plan.placements:,} would move, in "
            f"{_count(namespaces, 'namespace')} and on {_count(clusters, 'cluster')} of {plan.clusters:,}"
        )
        gains = [f"{name} {change:+,}" for name, change in plan.gains.items()]
        shown = gains if everything else gains[:SHOWN]
        more = "" if len(shown) == len(gains) else f" {MORE.format(count=len(gains) - len(shown))}"
        yield f"Decisions by cluster: {', '.join(shown) or 'the same number on each'}{more}"
    else:
        yield f"{NO_MOVES} {plan.concerned:,} of {plan.placements:,} placements were decided again."
    for move in plan.moves if everything else plan.moves[:SHOWN]:
        yield ""
        yield from _move(move, everything=everything)
    if not everything and len(plan.moves) > SHOWN:
        yield ""
        yield MORE.format(count=len(plan.moves) - SHOWN)
    if plan.skipped:
        yield ""
        for skipped in plan.skipped:
            yield f"{'/'.join(skipped.placement)} cannot be decided, keeps its decision: {cell(skipped.message)}"
    if plan.stranded:
        yield ""
        yield from _first([_effect(one) for one in plan.stranded], SHOWN, everything=everything)


def _move(move: Move, *, everything: bool) -> Iterator[str]:
    wanted = f"{len(move.after):,}" if move.wanted is None else f"{len(move.after):,} of {move.wanted:,}"
    was = "not decided before" if move.before is None else f"{len(move.before):,} before"
    due = DUE if move.due else ""
    yield f"{'/'.join(move.placement)}: {wanted} clusters, {was}; {move.status}{due}"
    reasons = {trace.host: trace for trace in move.reasons}
    for sign, names in (("+", move.added), ("-", move.removed)):
        listed = [
            f"  {sign}{name}: {because(reasons[name])}" if name in reasons else f"  {sign}{name}"
            for name in names
        ]
        yield from _first(listed, SHOWN, everything=everything, indent="  ")
    for consequence in move.consequences:
        yield f"  {_effect(consequence)}"


def because(trace: HostTrace) -> str:
    """Describe why a cluster is selected or not."""
    if trace.rank is None:
        return f"rejected by {trace.rejected_by or 'the cycle'}: {cell(trace.reason)}"
    terms = ", ".join(
        term(part.plugin, part.weight, part.score, known=part.known) for part in trace.contributions
    )
    scored = f"rank {trace.rank} with {trace.total} points" + (f" ({terms})" if terms else "")
    return scored if trace.selected else f"{scored}: {cell(trace.reason)}"


def _effect(consequence: Consequence) -> str:
    clusters = ", ".join(consequence.clusters[:SHOWN])
    more = len(consequence.clusters) - SHOWN
    listed = f"{clusters} and {more:,} more" if more > 0 else clusters
    return f"{consequence.kind} {consequence.name}: {EFFECTS[consequence.what].format(clusters=listed)}"


def _first(listed: Sequence[str], limit: int, *, everything: bool, indent: str = "") -> Iterator[str]:
    shown = listed if everything else listed[:limit]
    yield from shown
    if len(listed) > len(shown):
        yield f"{indent}{MORE.format(count=len(listed) - len(shown))}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
