"""`fairway explain`: why these clusters, why not the others, and what would make one win."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.errors import EXIT_OK, BadInputError
from fairway.cli.options import files_options, load_files, moment, no_placements
from fairway.cli.output import OutputFormat, Row, cell, emit, output_option, plain_table, say

if TYPE_CHECKING:
    from fairway.engine.trace import Contribution, HostTrace
    from fairway.whatif.counterfactual import Counterfactual
    from fairway.whatif.edits import Edit
    from fairway.whatif.explain import ClusterAnswer, Explanation
    from fairway.whatif.world import Key, World

TITLES: Final = ("Rank", "Cluster", "Total", "Prioritizer", "Difference")
NAMES_SHOWN: Final = 4
CHOSEN_SHOWN: Final = 10
MORE: Final = "… and {count:,} more"
NO_SCORE: Final = "no score"
NOTHING_CHOSEN: Final = "  No cluster was chosen."
ALL_CHOSEN: Final = "  There are no others."
NOTHING_TO_TRY: Final = (
    "    There was nothing to try: no label, claim, taint, score or set that could matter is known."
)
NOT_A_PLACEMENT: Final = "{word!r} is nothing to explain; write: fairway explain -f … placement {name}"
TRIED: Final = "  Tried: with this it is chosen{losers}. With {less} it is not."


def _only_placements(_context: click.Context, _parameter: click.Parameter, word: str) -> None:
    if word != "placement":
        name = word if "/" in word else "NS/NAME"
        raise click.BadParameter(NOT_A_PLACEMENT.format(word=word, name=name))


@click.command(
    short_help="Say why clusters were chosen, why not, and what would change it.",
    epilog="""\b
Examples:
  fairway explain -f examples/fleet placement ns1/most-free-cpu
  fairway explain -f examples/fleet placement ns1/most-free-cpu --cluster gpu-iad
  fairway explain -f fleet.json placement apps/web --cluster c17 -o json | jq .cluster.counterfactual.edits

\b
The answer is that of fairway place: placements before this one, by namespace and name, are decided first.
--alone leaves them undecided.

\b
What would make a cluster win is the smallest change: the fewest edits; of as many, those that ask least of
others (tolerate, name a set, label, taint, join a set, bind a set, claim, score, amount, more clusters); of
those, the ones that move numbers least. It was tried: with the edits the cluster is chosen, without any one
of them, or with one point, cluster or step of an amount less, it is not. Other placements keep what they
have meanwhile; where one would change its mind about the same cluster, Balance may come out differently.

\b
-o json and -o yaml have these fields:
  placement, wanted (null: all), clusters, satisfied, reason, message, leftAlone,
  advice[]      kind, message, remedy
  chosen[]      cluster, rank, total, contributions[]: plugin, score, weight, points, known
  passedOver[]  as chosen, and reason
  rejected[]    plugin, reason, count, clusters[]
  cluster       name, selected, rejectedBy, reason, rank, total, contributions[], checks[]: plugin, passed,
                reason; comparison: with, gap, contributions[]; counterfactual: state (Selected, Found,
                Blocked, NotFound), edits[]: kind, description and its own fields; alternatives[][],
                displaced[], obstacle, tried[], runs, margin: points, runnerUp
""",
)
@files_options
@click.argument(
    "kind",
    callback=_only_placements,
    shell_complete=lambda _context, _parameter, typed: ["placement"] if "placement".startswith(typed) else [],
    metavar="placement",
    expose_value=False,
)
@click.argument("name", metavar="NS/NAME")
@click.option("--cluster", metavar="NAME", help="Explain this cluster first, and what would make it win.")
@click.option("--now", type=moment, metavar="TIME", help="The moment to explain.  [default: now]")
@click.option("--alone", is_flag=True, help="Do not decide earlier placements first.")
@click.option("--all", "everything", is_flag=True, help="Show all clusters, however many.")
@output_option
def explain(
    files: tuple[str, ...],
    max_file_size: int,
    verbose: bool,
    name: str,
    cluster: str | None,
    now: datetime | None,
    alone: bool,
    everything: bool,
    output: OutputFormat,
) -> int:
    """Say why a placement gets the clusters it gets, and why not the others."""
    from fairway.fleet.instant import to_micros
    from fairway.whatif.explain import explain as explanation_of
    from fairway.whatif.names import UnknownNameError, find_cluster, find_placement
    from fairway.whatif.world import World

    loaded = load_files(files, max_file_size=max_file_size, verbose=verbose, expressions=True)
    world = World(each.object for each in loaded)
    if not world.placements:
        raise no_placements(loaded)
    try:
        key = find_placement(world, name)
        wanted = None if cluster is None else find_cluster(world, cluster)
    except UnknownNameError as error:
        raise BadInputError(str(error)) from None
    micros = to_micros(now or datetime.now(UTC))
    if not alone:
        _decide_before(world, key, micros)
    found = explanation_of(world, key, now=micros, cluster=wanted)
    if output != "table":
        emit([], columns={}, output=output, document=document(found))
    else:
        say("\n".join(_lines(found, everything=everything)))
    return EXIT_OK


def _decide_before(world: "World", key: "Key", now: int) -> None:
    from fairway.cli.progress import tracked

    earlier = sorted(each for each in world.placements if each < key)
    for each in tracked(earlier, "placing", total=len(earlier)):
        world.place(each, now=now)


# For people


def _lines(found: "Explanation", *, everything: bool) -> Iterator[str]:
    name = "/".join(found.placement)
    if found.left_alone:
        yield f"{name}: left alone, {found.left_alone}. If it were looked at:"
    count = f"{len(found.chosen):,}" if found.wanted is None else f"{len(found.chosen):,} of {found.wanted:,}"
    noun = "cluster" if len(found.chosen) == 1 else "clusters"
    yield f"{name}: {count} {noun}, {found.reason}: {found.message}"
    feasible = len(found.chosen) + len(found.passed_over)
    yield f"{found.clusters:,} in the fleet, {feasible:,} passed every filter"
    for each in found.advice:
        yield f"{each.kind}: {each.message if everything else each.brief}"
        # To be told to come here helps nobody who is here.
        if each.remedy and not each.remedy.startswith("fairway explain "):
            yield f"    to do: {each.remedy}"
    if found.cluster is not None:
        yield ""
        yield from _about(found.cluster)
    yield ""
    yield "Why these"
    yield from _standings(found.chosen, limit=None if everything else CHOSEN_SHOWN)
    if not found.chosen:
        yield NOTHING_CHOSEN
    yield ""
    yield "Why not the others"
    yield from _others(found, everything=everything)


def _standings(hosts: "Sequence[HostTrace]", *, limit: int | None) -> Iterator[str]:
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
    """Headings that are names stay as they are written."""
    header, *lines = plain_table(rows, columns=columns).splitlines()
    for title in columns.values():
        if title not in TITLES:
            header = header.replace(title.upper(), title, 1)
    yield f"{indent}{header}"
    yield from (f"{indent}{line}" for line in lines)


def _product(part: "Contribution") -> str:
    return f"{part.score} × {part.weight} = {part.points}" if part.known else NO_SCORE


def _others(found: "Explanation", *, everything: bool) -> Iterator[str]:
    if not found.passed_over and not found.rejected:
        yield ALL_CHOSEN
    if found.passed_over:
        groups: dict[str, list[str]] = {}
        for each in found.passed_over:
            # Ranks and totals are in the list; what differs otherwise is what the spread policy says.
            spread = "" if each.reason.startswith("passed every filter") else each.reason
            groups.setdefault(spread, []).append(f"{each.host} (rank {each.rank}, {each.total})")
        for reason, names in groups.items():
            why = reason or ("none is wanted" if found.wanted == 0 else "ranked lower")
            yield f"  {_count(len(names))} passed every filter but {why}"
            yield from _names(names, everything=everything)
    for group in found.rejected:
        yield f"  {_count(len(group.clusters))} turned away by {group.plugin or 'the cycle'}: {cell(group.reason)}"
        yield from _names(group.clusters, everything=everything)


def _count(number: int) -> str:
    return "1 cluster" if number == 1 else f"{number:,} clusters"


def _names(names: "Sequence[str]", *, everything: bool) -> Iterator[str]:
    shown = names if everything else names[:NAMES_SHOWN]
    more = len(names) - len(shown)
    listed = ", ".join(shown)
    yield f"      {listed} {MORE.format(count=more)}" if more else f"      {listed}"


def _about(answer: "ClusterAnswer") -> Iterator[str]:
    trace = answer.trace
    yield f"Why {trace.host}" if trace.selected else f"Why not {trace.host}"
    if trace.rank is None:
        for each in answer.checks:
            verdict = "passes" if each.passed else f"turns it away: {cell(each.reason)}"
            yield f"  {each.plugin} {verdict}"
    else:
        terms = ", ".join(f"{part.plugin} {_product(part)}" for part in trace.contributions)
        yield f"  rank {trace.rank} with {trace.total} points" + (f": {terms}" if terms else "")
        if trace.reason:
            yield f"  {trace.reason}"
    if answer.comparison is not None:
        other, gap = answer.comparison.other, answer.comparison.gap
        behind = (
            f"{gap:,} points behind" if gap > 0 else "level with" if gap == 0 else f"{-gap:,} points ahead of"
        )
        yield f"  {behind} {other.host}, the last one chosen:"
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
        if not what.tried:
            yield NOTHING_TO_TRY
        return
    yield from _edits(what.edits)
    losers = f"; {', '.join(what.displaced)} would lose a place" if what.displaced else ""
    yield TRIED.format(losers=losers, less=_less(what.edits))
    for edits in what.alternatives:
        yield "  Or:"
        yield from _edits(edits, indent="    ")


def _less(edits: "Sequence[Edit]") -> str:
    """What was tried and is not enough. Amounts are tried in steps, so between two steps nothing is known."""
    from fairway.whatif.number_edits import Allocate

    steps = [f"{each.unit} {each.resource} less" for each in edits if isinstance(each, Allocate)]
    if not steps:
        return "anything less"
    return ", ".join(steps) + (", or without any one of these," if len(edits) > 1 else "")


def _edits(edits: "Sequence[Edit]", indent: str = "  ") -> Iterator[str]:
    for number, each in enumerate(edits, 1):
        yield f"{indent}{number}. {each.describe()}" if len(edits) > 1 else f"{indent}{each.describe()}"


def _margin(what: "Counterfactual") -> str:
    if what.margin is None:
        return "The spread policy decides, so there is no margin in points."
    if what.margin.points is None:
        return "Nobody competes for it."
    return f"It may lose {what.margin.points:,} points before {what.margin.runner_up} takes it."


# For programs


def document(found: "Explanation") -> dict[str, Any]:
    """The fields are those `--help` lists; every one is always there."""
    return {
        "placement": "/".join(found.placement),
        "wanted": found.wanted,
        "clusters": found.clusters,
        "satisfied": found.satisfied,
        "reason": found.reason,
        "message": found.message,
        "leftAlone": found.left_alone,
        "advice": [
            {"kind": each.kind, "message": each.message, "remedy": each.remedy} for each in found.advice
        ],
        "chosen": [_standing(each) for each in found.chosen],
        "passedOver": [{**_standing(each), "reason": each.reason} for each in found.passed_over],
        "rejected": [
            {
                "plugin": each.plugin,
                "reason": each.reason,
                "count": len(each.clusters),
                "clusters": list(each.clusters),
            }
            for each in found.rejected
        ],
        "cluster": None if found.cluster is None else _cluster_document(found.cluster),
    }


def _standing(host: "HostTrace") -> dict[str, Any]:
    return {
        "cluster": host.host,
        "rank": host.rank,
        "total": host.total,
        "contributions": [
            {
                "plugin": each.plugin,
                "score": each.score,
                "weight": each.weight,
                "points": each.points,
                "known": each.known,
            }
            for each in host.contributions
        ],
    }


def _cluster_document(answer: "ClusterAnswer") -> dict[str, Any]:
    trace, what, comparison = answer.trace, answer.counterfactual, answer.comparison
    body = _standing(trace)
    return {
        "name": body.pop("cluster"),
        **body,
        "selected": trace.selected,
        "rejectedBy": trace.rejected_by,
        "reason": trace.reason,
        "checks": [
            {"plugin": each.plugin, "passed": each.passed, "reason": each.reason} for each in answer.checks
        ],
        "comparison": None
        if comparison is None
        else {
            "with": comparison.other.host,
            "gap": comparison.gap,
            "contributions": _standing(comparison.other)["contributions"],
        },
        "counterfactual": {
            "state": what.state.value,
            "edits": [each.document() for each in what.edits],
            "alternatives": [[each.document() for each in edits] for edits in what.alternatives],
            "displaced": list(what.displaced),
            "obstacle": what.obstacle,
            "tried": list(what.tried),
            "runs": what.runs,
            "margin": None
            if what.margin is None
            else {"points": what.margin.points, "runnerUp": what.margin.runner_up},
        },
    }
