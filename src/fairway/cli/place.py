"""`fairway place`: decide the placements of files or of a hub, and print the decisions without writing them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.client.session import HubChoice
from fairway.cli.completion import complete
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.options.input import Input, input_options, load_input, moment, no_placements
from fairway.cli.options.scheduler import load_scheduling, scheduler_option
from fairway.cli.output import OutputFormat, emit, output_option, plain_table, say

if TYPE_CHECKING:
    from fairway.placement.verdict import Verdict
    from fairway.whatif.advice import Advice
    from fairway.whatif.world import Key, World

SKIPPED: Final = "skipped"
NOT_DECIDED: Final = "not decided yet"
SAME: Final = "the same"
MORE: Final = "… and {count:,} more"
NOTE: Final = "{placement}: {kind}: {message}"
REMEDY: Final = "    remedy: {remedy}"
HEADING: Final = "{placement}: {clusters}, {satisfied}"

SHOWN_IN_ROW: Final = 4
SHOWN_WITH_REASONS: Final = 10


@dataclass(frozen=True, slots=True)
class Placed:
    """The result for one placement. ``idle`` is the reason for skipping it, or empty."""

    key: "Key"
    found: "Verdict"
    idle: str
    satisfied: bool
    reason: str
    advice: "tuple[Advice, ...]"
    before: "list[str] | None" = None
    """The recorded decision; None if there is none."""

    @property
    def name(self) -> str:
        return "/".join(self.key)

    @property
    def clusters(self) -> str:
        """Selected and wanted number of clusters."""
        wanted = self.found.outcome.context.workload.wanted
        count = f"{self.found.selected:,}"
        return count if wanted is None else f"{count} of {wanted:,}"

    @property
    def change(self) -> str:
        """The difference from the decision on the hub."""
        if self.before is None:
            return NOT_DECIDED
        now = self.found.outcome.selected
        added = [f"+{name}" for name in now if name not in self.before]
        removed = [f"-{name}" for name in self.before if name not in now]
        changes = added + removed
        shown = ", ".join(changes[:SHOWN_IN_ROW])
        more = len(changes) - SHOWN_IN_ROW
        return f"{shown} {MORE.format(count=more)}" if more > 0 else shown or SAME


@click.command(
    short_help="Decide placements and print the decisions.",
    epilog="""\b
Examples:
  fairway place -f examples/fleet
  fairway place -f examples/fleet --reasons --placement ns1/most-free-cpu
  fairway place -f fleet.json --now 2026-01-02T10:00:00Z -o yaml | kubectl apply --dry-run=client -f -
  fairway place -f fleet.json --strict
  fairway place
  fairway place -f new-placement.yaml --hub

\b
Without -f, the placements of the hub are decided; with -f and --hub, those of the files, or all of the hub if the files
have none, on the hub as it would be with the files applied. Nothing is written. ON THE HUB is the difference from the
hub's decisions.

\b
Placements are decided in the order of namespace and name; each sees the earlier decisions.
-o yaml and -o json print a v1 List: each Placement with its status, then its PlacementDecisions.
Exit status: 0 decided, 1 with --strict if a placement is not satisfied or misconfigured, 2 bad input.
""",
)
@click.option(
    "--placement",
    "wanted",
    multiple=True,
    metavar="NS/NAME",
    shell_complete=complete("placements"),
    help="Decide only this placement. Can be repeated.",
)
@click.option("--now", type=moment, metavar="TIME", help="Decide at this time.  [default: now]")
@click.option("--reasons", is_flag=True, help="Show the reason for each selected cluster.")
@click.option("--all", "everything", is_flag=True, help="Show all selected clusters.")
@click.option("--strict", is_flag=True, help="Fail if a placement is not satisfied.")
@scheduler_option
@output_option
@input_options
def place(
    files: tuple[str, ...],
    max_file_size: int,
    verbose: bool,
    with_hub: bool,
    hub: HubChoice,
    wanted: tuple[str, ...],
    now: datetime | None,
    reasons: bool,
    everything: bool,
    strict: bool,
    scheduler_config: Path | None,
    output: OutputFormat,
) -> int:
    """Decide placements with the clusters and scores of files or of a hub."""
    from fairway.cli.progress import tracked
    from fairway.fleet.instant import to_micros
    from fairway.placement.debits import debits_of
    from fairway.whatif.names import UnknownNameError, find_placement
    from fairway.whatif.world import World

    profile = load_scheduling(scheduler_config).placement
    given = load_input(
        files,
        max_file_size=max_file_size,
        verbose=verbose,
        with_hub=with_hub,
        hub=hub,
        expressions=True,
        debits=bool(debits_of(profile)),
    )
    world = World((each.object for each in given.objects), profile=profile)
    if not world.placements:
        raise no_placements(given)
    try:
        keys = sorted(
            {find_placement(world, text) for text in wanted}
            or _placements_of_files(given)
            or world.placements
        )
    except UnknownNameError as error:
        raise BadInputError(str(error)) from None
    micros = to_micros(now or datetime.now(UTC))
    work = (_place(world, key, micros) for key in keys)
    placed = list(tracked(work, "placing", total=len(keys)))
    if output != "table":
        emit([], columns={}, output=output, document=_document(world, placed))
    else:
        _print(placed, reasons=reasons, everything=everything, live=bool(given.server))
    return EXIT_NO if strict and not all(each.idle or each.satisfied for each in placed) else EXIT_OK


def _placements_of_files(given: Input) -> "set[Key]":
    """Return the placements in files."""
    from fairway.api.placement import Placement

    placements = given.files.of(Placement) if given.files else ()
    return {(each.metadata.namespace, each.metadata.name) for each in placements}


def _place(world: "World", key: "Key", now: int) -> Placed:
    from fairway.cli.client.world import recorded
    from fairway.engine.status import Code
    from fairway.whatif.advice import advise, disabled_reason, satisfied

    before = recorded(world, key)
    found = world.place(key, now=now)
    workload = world.workload(key)
    good, reason = satisfied(found)
    return Placed(
        key=key,
        found=found,
        idle=disabled_reason(workload.placement) if workload.idle else "",
        satisfied=good and found.status.code is not Code.MISCONFIGURED,
        reason=reason,
        advice=() if workload.idle else advise(workload.placement, found),
        before=before,
    )


def _print(placed: list[Placed], *, reasons: bool, everything: bool, live: bool) -> None:
    if reasons:
        for at, each in enumerate(placed):
            _print_reasons(each, first=at == 0, everything=everything, live=live)
        return
    rows = [
        {
            "placement": each.name,
            "clusters": "" if each.idle else each.clusters,
            "satisfied": SKIPPED if each.idle else each.reason,
            "change": "" if each.idle else each.change,
            "chosen": "" if each.idle else _chosen(each, everything=everything),
        }
        for each in placed
    ]
    columns = {
        "placement": "Placement",
        "clusters": "Clusters",
        "satisfied": "Satisfied",
        **({"change": "On the hub"} if live else {}),
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


def _print_reasons(placed: Placed, *, first: bool, everything: bool, live: bool) -> None:
    if not first:
        say()
    if placed.idle:
        say(f"{placed.name}: {SKIPPED}, {placed.idle}")
        return
    noun = "cluster" if placed.found.selected == 1 else "clusters"
    heading = HEADING.format(
        placement=placed.name, clusters=f"{placed.clusters} {noun}", satisfied=placed.reason
    )
    say(f"{heading}; on the hub: {placed.change}" if live else heading)
    groups = _groups(placed.found)
    rows: list[dict[str, object]] = []
    for name, why, score in placed.found.outcome.reasons():
        if len(rows) == SHOWN_WITH_REASONS and not everything:
            break
        why = "; ".join((why, *_score_notes(placed.found, name)))
        rows.append({"cluster": name, "score": score, "group": groups.get(name, ""), "why": why})
    if rows:
        grouped = {"group": "Group"} if groups else {}
        table = plain_table(rows, columns={"cluster": "Cluster", "score": "Score", **grouped, "why": "Why"})
        say("\n".join(f"  {line}" for line in table.splitlines()))
    if placed.found.selected > len(rows):
        say(f"  {MORE.format(count=placed.found.selected - len(rows))} (--all shows them)")
    for line in _notes(placed, everything=everything):
        say(f"  {line}")


def _score_notes(found: "Verdict", cluster: str) -> Iterator[str]:
    """Yield what prioritizers note about valid scores of a cluster, such as debits."""
    from fairway.engine.trace import Trace

    for part in Trace(found.outcome).host(cluster).contributions:
        if part.known and part.note:
            yield f"{part.plugin}: {part.note}"


def _groups(found: "Verdict") -> dict[str, str]:
    """Return the decision group of each cluster, as index and name; empty for a single unnamed group."""
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
        yield NOTE.format(placement=placed.name, kind=SKIPPED, message=placed.idle)
    for each in placed.advice:
        yield NOTE.format(
            placement=placed.name, kind=each.kind, message=each.message if everything else each.brief
        )
        if each.remedy:
            yield REMEDY.format(remedy=each.remedy)


def _document(world: "World", placed: list[Placed]) -> dict[str, Any]:
    """Return each Placement followed by its PlacementDecisions."""
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
        # A Placement from a file has no uid, and the API server rejects owners without one.
        owners = [owner for owner in document["metadata"].pop("ownerReferences", ()) if owner.get("uid")]
        if owners:
            document["metadata"]["ownerReferences"] = owners
        yield document
