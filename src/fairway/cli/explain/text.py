"""An explanation as text."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from fairway.cli.output import Row, cell, plain_table

if TYPE_CHECKING:
    from fairway.engine.trace import Contribution, HostTrace
    from fairway.whatif.counterfactual import Counterfactual
    from fairway.whatif.edits import Edit
    from fairway.whatif.explain import ClusterAnswer, Explanation

TITLES: Final = ("Rank", "Cluster", "Total", "Prioritizer", "Difference")
NAMES_SHOWN: Final = 4
CHOSEN_SHOWN: Final = 10
MORE: Final = "… and {count:,} more"
MISSING: Final = "missing, counts {points}"
NOTHING_CHOSEN: Final = "  No cluster was selected."
ALL_CHOSEN: Final = "  All clusters were selected."
NOTHING_TO_TRY: Final = "    Nothing to try: no label, claim, taint, score or set is known that could matter."
TRIED: Final = "  Verified: with this change it is selected{losers}. {less}"
ON_THE_HUB: Final = "on the hub: {what}"
REPORTED: Final = "    the controller reports: {message}"
SAME: Final = "the same clusters"
NOT_DECIDED: Final = "not decided yet"
OTHERS: Final = "{names}, which differs from what the objects on the hub give now"
NONE: Final = "no cluster"


def lines(
    found: "Explanation",
    *,
    everything: bool,
    live: bool = False,
    recorded: list[str] | None = None,
    reported: str = "",
    queue: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the lines. ``live``: the input is a hub, whose decisions are ``recorded``, or None if not decided.
    ``reported``: why the controller did not write a new decision. ``queue`` are lines about the queue."""
    name = "/".join(found.placement)
    if found.disabled_reason:
        yield f"{name}: skipped, {found.disabled_reason}. Without that:"
    count = f"{len(found.chosen):,}" if found.wanted is None else f"{len(found.chosen):,} of {found.wanted:,}"
    noun = "cluster" if len(found.chosen) == 1 else "clusters"
    yield f"{name}: {count} {noun}, {found.reason}: {found.message}"
    feasible = len(found.chosen) + len(found.passed_over)
    yield f"{found.clusters:,} in the fleet, {feasible:,} passed every filter"
    if live:
        on_hub = _on_hub(found, recorded)
        yield on_hub
        if reported and reported != found.message and on_hub != ON_THE_HUB.format(what=SAME):
            yield REPORTED.format(message=cell(reported))
    for each in found.advice:
        yield f"{each.kind}: {each.message if everything else each.brief}"
        # A remedy that names this command is of no use here.
        if each.remedy and not each.remedy.startswith("fairway explain "):
            yield f"    remedy: {each.remedy}"
    if found.cluster is not None:
        yield ""
        yield from _explain_cluster(found.cluster)
    yield ""
    yield "Why these"
    yield from _hosts(found.chosen, limit=None if everything else CHOSEN_SHOWN)
    if not found.chosen:
        yield NOTHING_CHOSEN
    yield ""
    yield "Why not the others"
    yield from _others(found, everything=everything)
    if queue:
        yield ""
        yield "In the queue"
        yield from (f"  {line}" for line in queue)


def _on_hub(found: "Explanation", before: "list[str] | None") -> str:
    if before is None:
        return ON_THE_HUB.format(what=NOT_DECIDED)
    if set(before) == {each.host for each in found.chosen}:
        return ON_THE_HUB.format(what=SAME)
    names = ", ".join(before[:CHOSEN_SHOWN]) or NONE
    more = len(before) - CHOSEN_SHOWN
    names = f"{names} {MORE.format(count=more)}" if more > 0 else names
    return ON_THE_HUB.format(what=OTHERS.format(names=names))


def _hosts(hosts: "Sequence[HostTrace]", *, limit: int | None) -> Iterator[str]:
    if not hosts:
        return
    shown = hosts if limit is None else hosts[:limit]
    rows: list[dict[str, object]] = []
    for each in shown:
        row: dict[str, object] = {"rank": each.rank, "cluster": each.host, "total": each.total}
        row |= {str(at): _product(part) for at, part in enumerate(each.contributions)}
        rows.append(row)
    parts = {str(at): part.plugin for at, part in enumerate(hosts[0].contributions)}
    columns = {"rank": "Rank", "cluster": "Cluster", "total": "Total", **parts}
    yield from _table(rows, columns, indent="  ")
    if len(hosts) > len(shown):
        yield f"  {MORE.format(count=len(hosts) - len(shown))} (--all shows them)"


def _table(rows: Sequence[Row], columns: dict[str, str], *, indent: str) -> Iterator[str]:
    """Format a table; headings that are names keep their case."""
    header, *lines = plain_table(rows, columns=columns).splitlines()
    for title in columns.values():
        if title not in TITLES:
            header = header.replace(title.upper(), title, 1)
    yield f"{indent}{header}"
    yield from (f"{indent}{line}" for line in lines)


def _product(part: "Contribution") -> str:
    product = f"{part.score} × {part.weight} = {part.points}"
    return product if part.known else MISSING.format(points=product if part.points else 0)


def _others(found: "Explanation", *, everything: bool) -> Iterator[str]:
    if not found.passed_over and not found.rejected:
        yield ALL_CHOSEN
    if found.passed_over:
        groups: dict[str, list[str]] = {}
        for each in found.passed_over:
            # The list shows ranks and totals; other reasons come from the spread policy.
            spread = "" if each.reason.startswith("passed every filter") else each.reason
            groups.setdefault(spread, []).append(f"{each.host} (rank {each.rank}, {each.total})")
        for reason, names in groups.items():
            why = reason or ("the placement wants none" if found.wanted == 0 else "ranked lower")
            yield f"  {_count(len(names))} passed every filter but {why}"
            yield from _names(names, everything=everything)
    for group in found.rejected:
        yield f"  {_count(len(group.clusters))} rejected by {group.plugin or 'the cycle'}: {cell(group.reason)}"
        yield from _names(group.clusters, everything=everything)


def _count(number: int) -> str:
    return "1 cluster" if number == 1 else f"{number:,} clusters"


def _names(names: "Sequence[str]", *, everything: bool) -> Iterator[str]:
    shown = names if everything else names[:NAMES_SHOWN]
    more = len(names) - len(shown)
    listed = ", ".join(shown)
    yield f"      {listed} {MORE.format(count=more)}" if more else f"      {listed}"


def _explain_cluster(answer: "ClusterAnswer") -> Iterator[str]:
    trace = answer.trace
    yield f"Why {trace.host}" if trace.selected else f"Why not {trace.host}"
    if trace.rank is None:
        for each in answer.checks:
            verdict = "passes" if each.passed else f"rejects it: {cell(each.reason)}"
            yield f"  {each.plugin} {verdict}"
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


def _what_if(what: "Counterfactual") -> Iterator[str]:
    from fairway.whatif.counterfactual import NOTHING_FOUND, State

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
        yield from (f"    tried: {each}" for each in what.tried)
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


def _notes(notes: "Sequence[str]") -> Iterator[str]:
    yield from (f"  Note: {cell(each)}." for each in notes)


def _insufficient(edits: "Sequence[Edit]") -> str:
    """State which smaller change was verified as insufficient. Amounts are tried in steps.

    A score that only has to be published is proposed with its current value; lower values are not tried.
    """
    from fairway.whatif.edits import NumericEdit
    from fairway.whatif.number_edits import Allocate

    if any(isinstance(each, NumericEdit) and not each.steps for each in edits):
        return "Without it, it is not." if len(edits) == 1 else "Without any one of these, it is not."
    steps = [f"{each.unit} {each.resource} less" for each in edits if isinstance(each, Allocate)]
    if not steps:
        return "No smaller change is enough."
    return f"With {', '.join(steps)}{', or without any one of these' if len(edits) > 1 else ''}, it is not."


def _edits(edits: "Sequence[Edit]", indent: str = "  ") -> Iterator[str]:
    for number, each in enumerate(edits, 1):
        yield f"{indent}{number}. {each.describe()}" if len(edits) > 1 else f"{indent}{each.describe()}"


def _margin(what: "Counterfactual") -> str:
    if what.margin is None:
        return "The spread policy decides, so there is no margin in points."
    if what.margin.points is None:
        return "No other cluster competes for its place."
    return f"It can lose {what.margin.points:,} points before {what.margin.runner_up} replaces it."
