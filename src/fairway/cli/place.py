"""`fairway place`: schedule the placements that files hold, and print the decisions."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.options import files_options, load_files, moment, no_placements
from fairway.cli.output import OutputFormat, emit, output_option, plain_table, say

if TYPE_CHECKING:
    from fairway.plugins.verdict import Verdict
    from fairway.whatif.advice import Advice
    from fairway.whatif.world import Key, World

LEFT_ALONE: Final = "left alone"
MORE: Final = "… and {count:,} more"
NOTE: Final = "{placement}: {kind}: {message}"
REMEDY: Final = "    to do: {remedy}"
HEADING: Final = "{placement}: {clusters}, {satisfied}"

SHOWN_IN_ROW: Final = 4
SHOWN_WITH_REASONS: Final = 10


@dataclass(frozen=True, slots=True)
class Placed:
    """One placement after it was looked at. ``idle`` says why it was left alone, empty if it was not."""

    key: "Key"
    found: "Verdict"
    idle: str
    satisfied: bool
    reason: str
    advice: "tuple[Advice, ...]"

    @property
    def name(self) -> str:
        return "/".join(self.key)

    @property
    def clusters(self) -> str:
        """How many of how many."""
        wanted = self.found.outcome.context.workload.wanted
        count = f"{self.found.selected:,}"
        return count if wanted is None else f"{count} of {wanted:,}"


@click.command(
    short_help="Decide placements and print the decisions.",
    epilog="""\b
Examples:
  fairway place -f examples/fleet
  fairway place -f examples/fleet --reasons --placement ns1/most-free-cpu
  fairway place -f fleet.json --now 2026-01-02T10:00:00Z -o yaml | kubectl apply --dry-run=client -f -
  fairway place -f fleet.json --strict

\b
Placements are decided in the order of namespace and name; each sees what the earlier ones decided.
-o yaml and -o json print a v1 List: each Placement with its status, then its PlacementDecisions.
Exit status: 0 decided, 1 with --strict when one is not satisfied or misconfigured, 2 bad input.
""",
)
@files_options
@click.option(
    "--placement", "wanted", multiple=True, metavar="NS/NAME", help="Decide only this one. May be repeated."
)
@click.option("--now", type=moment, metavar="TIME", help="The moment to decide for.  [default: now]")
@click.option("--reasons", is_flag=True, help="Say of each chosen cluster why.")
@click.option("--all", "everything", is_flag=True, help="Show all chosen clusters, however many.")
@click.option("--strict", is_flag=True, help="Fail when a placement does not get all it wants.")
@output_option
def place(
    files: tuple[str, ...],
    max_file_size: int,
    verbose: bool,
    wanted: tuple[str, ...],
    now: datetime | None,
    reasons: bool,
    everything: bool,
    strict: bool,
    output: OutputFormat,
) -> int:
    """Decide all placements that files hold, against the clusters and scores in the same files."""
    from fairway.cli.progress import tracked
    from fairway.fleet.instant import to_micros
    from fairway.whatif.names import UnknownNameError, find_placement
    from fairway.whatif.world import World

    loaded = load_files(files, max_file_size=max_file_size, verbose=verbose, expressions=True)
    world = World(each.object for each in loaded)
    if not world.placements:
        raise no_placements(loaded)
    try:
        keys = sorted({find_placement(world, text) for text in wanted} if wanted else world.placements)
    except UnknownNameError as error:
        raise BadInputError(str(error)) from None
    micros = to_micros(now or datetime.now(UTC))
    work = (_place(world, key, micros) for key in keys)
    placed = list(tracked(work, "placing", total=len(keys)))
    if output != "table":
        emit([], columns={}, output=output, document=_document(world, placed))
    else:
        _print(placed, reasons=reasons, everything=everything)
    return EXIT_NO if strict and not all(each.idle or each.satisfied for each in placed) else EXIT_OK


def _place(world: "World", key: "Key", now: int) -> Placed:
    from fairway.engine.status import Code
    from fairway.whatif.advice import advise, left_alone, satisfied

    found = world.place(key, now=now)
    workload = world.workload(key)
    good, reason = satisfied(found)
    return Placed(
        key=key,
        found=found,
        idle=left_alone(workload.placement) if workload.idle else "",
        satisfied=good and found.status.code is not Code.MISCONFIGURED,
        reason=reason,
        advice=() if workload.idle else advise(workload.placement, found),
    )


def _print(placed: list[Placed], *, reasons: bool, everything: bool) -> None:
    if reasons:
        for at, each in enumerate(placed):
            _print_reasons(each, first=at == 0, everything=everything)
        return
    rows = [
        {
            "placement": each.name,
            "clusters": "" if each.idle else each.clusters,
            "satisfied": LEFT_ALONE if each.idle else each.reason,
            "chosen": "" if each.idle else _chosen(each, everything=everything),
        }
        for each in placed
    ]
    columns = {
        "placement": "Placement",
        "clusters": "Clusters",
        "satisfied": "Satisfied",
        "chosen": "Chosen (score)",
    }
    emit(rows, columns=columns)
    notes = [line for each in placed for line in _notes(each, everything=everything)]
    if notes:
        say("\n" + "\n".join(notes))


def _chosen(placed: Placed, *, everything: bool) -> str:
    shown: list[str] = []
    total = placed.found.selected
    for name, _, score in placed.found.outcome.reasons():
        if len(shown) == SHOWN_IN_ROW and not everything:
            break
        shown.append(f"{name} ({score})")
    text = ", ".join(shown)
    return f"{text} {MORE.format(count=total - len(shown))}" if total > len(shown) else text


def _print_reasons(placed: Placed, *, first: bool, everything: bool) -> None:
    if not first:
        say()
    if placed.idle:
        say(f"{placed.name}: {LEFT_ALONE}, {placed.idle}")
        return
    noun = "cluster" if placed.found.selected == 1 else "clusters"
    heading = HEADING.format(
        placement=placed.name, clusters=f"{placed.clusters} {noun}", satisfied=placed.reason
    )
    say(heading)
    groups = _groups(placed.found)
    rows: list[dict[str, object]] = []
    for name, why, score in placed.found.outcome.reasons():
        if len(rows) == SHOWN_WITH_REASONS and not everything:
            break
        rows.append({"cluster": name, "score": score, "group": groups.get(name, ""), "why": why})
    if rows:
        grouped = {"group": "Group"} if groups else {}
        table = plain_table(rows, columns={"cluster": "Cluster", "score": "Score", **grouped, "why": "Why"})
        say("\n".join(f"  {line}" for line in table.splitlines()))
    if placed.found.selected > len(rows):
        say(f"  {MORE.format(count=placed.found.selected - len(rows))} (--all shows them)")
    for line in _notes(placed, everything=everything):
        say(f"  {line}")


def _groups(found: "Verdict") -> dict[str, str]:
    """The decision group of each cluster, as its index and name; nothing where there is only one without name."""
    from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL

    if len(found.groups) == 1 and not found.groups[0].decisionGroupName:
        return {}
    return {
        cluster: f"{page.labels[GROUP_INDEX_LABEL]} {page.labels.get(GROUP_NAME_LABEL, '')}".rstrip()
        for page in found.pages
        for cluster in page.clusters
    }


def _notes(placed: Placed, *, everything: bool) -> Iterator[str]:
    if placed.idle:
        yield NOTE.format(placement=placed.name, kind=LEFT_ALONE, message=placed.idle)
    for each in placed.advice:
        yield NOTE.format(
            placement=placed.name, kind=each.kind, message=each.message if everything else each.brief
        )
        if each.remedy:
            yield REMEDY.format(remedy=each.remedy)


def _document(world: "World", placed: list[Placed]) -> dict[str, Any]:
    """A Placement is followed by its decisions, in the order of their pages."""
    from fairway.api.kinds import encode

    items: list[dict[str, Any]] = []
    for each in placed:
        items.append(encode(world.placements[each.key]))
        items.extend(_decisions(world, each.key))
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _decisions(world: "World", key: "Key") -> Iterator[dict[str, Any]]:
    from fairway.api.kinds import encode
    from fairway.api.placement import PLACEMENT_LABEL

    namespace, name = key
    mine = [
        each
        for each in world.decisions(namespace).values()
        if each.metadata.labels.get(PLACEMENT_LABEL) == name
    ]
    for each in sorted(mine, key=lambda each: (len(each.metadata.name), each.metadata.name)):
        document = encode(each)
        # A Placement out of a file has no uid yet, and the API server refuses owners without one.
        owners = [owner for owner in document["metadata"].pop("ownerReferences", ()) if owner.get("uid")]
        if owners:
            document["metadata"]["ownerReferences"] = owners
        yield document
