"""An explanation as text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fairway.cli.client.world import Recorded
from fairway.cli.layout import terminal_width
from fairway.cli.output import Row, plain_table
from fairway.cli.text import cell
from fairway.engine.trace import Contribution, HostTrace
from fairway.whatif.counterfactual import NOTHING_FOUND, Counterfactual, State
from fairway.whatif.edits import Edit, NumericEdit
from fairway.whatif.explain import ClusterAnswer, Explanation
from fairway.whatif.number_edits import Allocate
from kubewire.api.meta import format_time

TITLES: Final = ("Rank", "Cluster", "Total", "Recorded", "Prioritizer", "Difference")
NAMES_SHOWN: Final = 4
CHOSEN_SHOWN: Final = 10
TRIED_SHOWN: Final = 8
MORE: Final = "… and {count:,} more"
MISSING: Final = "missing, counts {points}"
NOTHING_CHOSEN: Final = "  No cluster was selected."
ALL_CHOSEN: Final = "  All clusters were selected."
NOTHING_TO_TRY: Final = "    Nothing to try: no label, claim, taint, score or set is known that could matter."
TRIED: Final = "  Verified: with this change it is selected{losers}. {less}"
ON_THE_HUB: Final = "on the hub: {what}"
REPORTED: Final = "    the controller reports: {message}"
SAME: Final = "the same clusters"
OTHER_POINTS: Final = "{what}; RECORDED are the points{at} there, TOTAL the present ones"
AT: Final = " of {time}"
NOT_DECIDED: Final = "not decided yet"
OTHERS: Final = "{names}, which differs from what the objects on the hub give now"
NONE: Final = "no cluster"


def lines(
    explanation: Explanation,
    *,
    everything: bool,
    live: bool = False,
    recorded: Recorded | None = None,
    reported: str = "",
    queue: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the lines. ``live``: the input is a hub, whose decisions are ``recorded``, or None if not decided.
    ``reported``: why the controller did not write a new decision. ``queue`` are lines about the queue."""
    name = "/".join(explanation.placement)
    if explanation.disabled_reason:
        yield f"{name}: skipped, {explanation.disabled_reason}. Without that:"
    count = (
        f"{len(explanation.chosen):,}"
        if explanation.wanted is None
        else f"{len(explanation.chosen):,} of {explanation.wanted:,}"
    )
    noun = "cluster" if len(explanation.chosen) == 1 else "clusters"
    yield f"{name}: {count} {noun}, {explanation.reason}: {explanation.message}"
    feasible = len(explanation.chosen) + len(explanation.passed_over)
    yield f"{explanation.clusters:,} in the fleet, {feasible:,} passed every filter"
    if live:
        yield ON_THE_HUB.format(what=_with_points(_on_hub(explanation, recorded), explanation, recorded))
        if reported and reported != explanation.message and not _is_as_recorded(explanation, recorded):
            yield REPORTED.format(message=cell(reported))
    for advice in explanation.advice:
        yield f"{advice.kind}: {advice.message if everything else advice.brief}"
        # A remedy that names this command is of no use here.
        if advice.remedy and ": fairway explain " not in advice.remedy:
            yield f"    remedy: {advice.remedy}"
    if explanation.cluster is not None:
        yield ""
        yield from _explain_cluster(explanation.cluster)
    yield ""
    yield "Why these"
    yield from _hosts(
        explanation.chosen,
        limit=None if everything else CHOSEN_SHOWN,
        recorded=recorded.scores if live and recorded is not None else {},
    )
    if not explanation.chosen:
        yield NOTHING_CHOSEN
    yield ""
    yield "Why not the others"
    yield from _others(explanation, everything=everything)
    if queue:
        yield ""
        yield "In the queue"
        yield from (f"  {line}" for line in queue)


def _is_as_recorded(explanation: Explanation, recorded: Recorded | None) -> bool:
    return recorded is not None and set(recorded.clusters) == {host.host for host in explanation.chosen}


def _on_hub(explanation: Explanation, recorded: Recorded | None) -> str:
    if recorded is None:
        return NOT_DECIDED
    if _is_as_recorded(explanation, recorded):
        return SAME
    names = ", ".join(recorded.clusters[:CHOSEN_SHOWN]) or NONE
    more = len(recorded.clusters) - CHOSEN_SHOWN
    return OTHERS.format(names=f"{names} {MORE.format(count=more)}" if more > 0 else names)


def _with_points(what: str, explanation: Explanation, recorded: Recorded | None) -> str:
    """State which points are which, where the recorded ones differ: they are written at most once a minute, and before
    the decision itself counted."""
    if recorded is None or not _differs(explanation.chosen, recorded.scores):
        return what
    at = AT.format(time=format_time(recorded.at)) if recorded.at is not None else ""
    return OTHER_POINTS.format(what=what, at=at)


def _differs(hosts: Sequence[HostTrace], recorded: Mapping[str, int]) -> bool:
    return any(recorded.get(host.host, host.total) != host.total for host in hosts)


def _hosts(hosts: Sequence[HostTrace], *, limit: int | None, recorded: Mapping[str, int]) -> Iterator[str]:
    """``recorded``: points on the hub, shown if one differs."""
    if not hosts:
        return
    shown = hosts if limit is None else hosts[:limit]
    rows: list[dict[str, object]] = []
    for host in shown:
        row: dict[str, object] = {"rank": host.rank, "cluster": host.host, "total": host.total}
        row |= {"recorded": recorded.get(host.host)}
        row |= {str(at): _product(part) for at, part in enumerate(host.contributions)}
        rows.append(row)
    parts = {str(at): part.plugin for at, part in enumerate(hosts[0].contributions)}
    on_hub = {"recorded": "Recorded"} if _differs(hosts, recorded) else {}
    columns = {"rank": "Rank", "cluster": "Cluster", "total": "Total", **on_hub, **parts}
    yield from _table(rows, columns, indent="  ")
    if len(hosts) > len(shown):
        yield f"  {MORE.format(count=len(hosts) - len(shown))} (--all shows them)"


def _table(rows: Sequence[Row], columns: dict[str, str], *, indent: str) -> Iterator[str]:
    """Format a table; headings that are names keep their case."""
    width = terminal_width(indent=indent)
    header, *lines = plain_table(rows, columns=columns, width=width).splitlines()
    for title in columns.values():
        if title not in TITLES:
            header = header.replace(title.upper(), title, 1)
    yield f"{indent}{header}"
    yield from (f"{indent}{line}" for line in lines)


def _product(part: Contribution) -> str:
    product = f"{part.score} × {part.weight} = {part.points}"
    return product if part.known else MISSING.format(points=product if part.points else 0)


def _others(explanation: Explanation, *, everything: bool) -> Iterator[str]:
    if not explanation.passed_over and not explanation.rejected:
        yield ALL_CHOSEN
    if explanation.passed_over:
        groups: dict[str, list[str]] = {}
        for host in explanation.passed_over:
            # The list shows ranks and totals; other reasons come from the spread policy.
            spread = "" if host.reason.startswith("passed every filter") else host.reason
            groups.setdefault(spread, []).append(f"{host.host} (rank {host.rank}, {host.total})")
        for reason, names in groups.items():
            why = reason or ("the placement wants none" if explanation.wanted == 0 else "ranked lower")
            yield f"  {_count(len(names))} passed every filter but {why}"
            yield from _names(names, everything=everything)
    for group in explanation.rejected:
        yield f"  {_count(len(group.clusters))} rejected by {group.plugin or 'the cycle'}: {cell(group.reason)}"
        yield from _names(group.clusters, everything=everything)


def _count(number: int) -> str:
    return "1 cluster" if number == 1 else f"{number:,} clusters"


def _names(names: Sequence[str], *, everything: bool) -> Iterator[str]:
    shown = names if everything else names[:NAMES_SHOWN]
    more = len(names) - len(shown)
    listed = ", ".join(shown)
    yield f"      {listed} {MORE.format(count=more)}" if more else f"      {listed}"


def _explain_cluster(answer: ClusterAnswer) -> Iterator[str]:
    trace = answer.trace
    yield f"Why {trace.host}" if trace.selected else f"Why not {trace.host}"
    if trace.rank is None:
        for check in answer.checks:
            verdict = "passes" if check.passed else f"rejects it: {cell(check.reason)}"
            yield f"  {check.plugin} {verdict}"
    else:
        terms = ", ".join(f"{part.plugin} {_product(part)}" for part in trace.contributions)
        yield f"  rank {trace.rank} with {trace.total} points" + (f": {terms}" if terms else "")
        if trace.reason:
            yield f"  {trace.reason}"
        yield from (f"  {part.plugin}: {cell(part.note)}" for part in trace.contributions if part.note)
    if answer.comparison is not None:
        other, gap = answer.comparison.other, answer.comparison.gap
        behind = (
            f"{gap:,} points behind" if gap > 0 else "level with" if gap == 0 else f"{-gap:,} points ahead of"
        )
        yield f"  {behind} {other.host}, the last one selected:"
        rows = [
            {
                "prioritizer": mine.plugin,
                "mine": _product(mine),
                "theirs": _product(theirs),
                "difference": mine.points - theirs.points,
            }
            for mine, theirs in zip(trace.contributions, other.contributions, strict=True)
        ]
        columns = {
            "prioritizer": "Prioritizer",
            "mine": trace.host,
            "theirs": other.host,
            "difference": "Difference",
        }
        yield from _table(rows, columns, indent="    ")
    yield ""
    yield from _what_if(answer.counterfactual)


def _what_if(what: Counterfactual) -> Iterator[str]:
    if what.state is State.SELECTED:
        yield "How safe its place is"
        yield f"  {_margin(what)}"
        return
    yield "What would make it win"
    if what.state is State.BLOCKED:
        yield f"  Nothing yet: {cell(what.obstacle)}"
        return
    if what.state is State.NOT_FOUND:
        yield f"  {NOTHING_FOUND.capitalize()}: {cell(what.obstacle)}"
        yield from (f"    tried: {attempt}" for attempt in what.tried[:TRIED_SHOWN])
        if (more := len(what.tried) - TRIED_SHOWN) > 0:
            yield f"    {MORE.format(count=more)} (-o json lists them)"
        if not what.tried and not what.notes:
            yield NOTHING_TO_TRY
        yield from _notes(what.notes)
        return
    yield from _edits(what.edits)
    losers = f"; {', '.join(what.displaced)} would be dropped" if what.displaced else ""
    yield TRIED.format(losers=losers, less=_insufficient(what.edits))
    for edits in what.alternatives:
        yield "  Or:"
        yield from _edits(edits, indent="    ")
    yield from _notes(what.notes)


def _notes(notes: Sequence[str]) -> Iterator[str]:
    yield from (f"  Note: {cell(note)}." for note in notes)


def _insufficient(edits: Sequence[Edit]) -> str:
    """State which smaller change was verified as insufficient. Amounts are tried in steps.

    A score that only has to be published is proposed with its current value; lower values are not tried.
    """
    if any(isinstance(edit, NumericEdit) and not edit.steps for edit in edits):
        return "Without it, it is not." if len(edits) == 1 else "Without any one of these, it is not."
    steps = [f"{edit.unit} {edit.resource} less" for edit in edits if isinstance(edit, Allocate)]
    if not steps:
        return "No smaller change is enough."
    return f"With {', '.join(steps)}{', or without any one of these' if len(edits) > 1 else ''}, it is not."


def _edits(edits: Sequence[Edit], indent: str = "  ") -> Iterator[str]:
    for number, edit in enumerate(edits, 1):
        yield f"{indent}{number}. {edit.describe()}" if len(edits) > 1 else f"{indent}{edit.describe()}"


def _margin(what: Counterfactual) -> str:
    if what.margin is None:
        return "The spread policy decides, so there is no margin in points."
    if what.margin.points is None:
        return "No other cluster competes for its place."
    return f"It can lose {what.margin.points:,} points before {what.margin.runner_up} replaces it."
