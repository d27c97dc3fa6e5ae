"""`fairway place`: decide the placements of files or of a hub, and print the decisions without writing them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fairway.api.decision import PlacementDecision
from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, Placement
from fairway.cli.client.world import Recorded, recorded
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.input import Input, load_input, no_placements
from fairway.cli.layout import terminal_width
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit, plain_table
from fairway.cli.progress import tracked
from fairway.cli.scheduling import load_scheduling
from fairway.cli.text import say
from fairway.engine.status import Code
from fairway.engine.trace import Trace
from fairway.hosts.instant import to_micros
from fairway.whatif.advice import Advice, advise, disabled_reason, satisfied
from fairway.whatif.names import UnknownNameError, find_placement
from fairway.whatif.world import Key, World
from fairway.workloads.placement.debits import debits_of
from fairway.workloads.placement.verdict import Verdict
from kubewire.api.encoding import encode

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

    key: Key
    verdict: Verdict
    idle: str
    satisfied: bool
    reason: str
    advice: tuple[Advice, ...]
    before: Recorded | None = None
    """The recorded decision; None if there is none."""
    objects: tuple[Placement | PlacementDecision, ...] = ()
    """The placement and its PlacementDecisions, as the controller would write them."""

    @property
    def name(self) -> str:
        return "/".join(self.key)

    @property
    def clusters(self) -> str:
        """Selected and wanted number of clusters."""
        wanted = self.verdict.outcome.context.workload.wanted
        count = f"{self.verdict.selected:,}"
        return count if wanted is None else f"{count} of {wanted:,}"

    @property
    def change(self) -> str:
        """The difference from the decision on the hub."""
        if self.before is None:
            return NOT_DECIDED
        now = self.verdict.outcome.selected
        before = self.before.clusters
        added = [f"+{name}" for name in now if name not in before]
        removed = [f"-{name}" for name in before if name not in now]
        changes = added + removed
        shown = ", ".join(changes[:SHOWN_IN_ROW])
        more = len(changes) - SHOWN_IN_ROW
        return f"{shown} {MORE.format(count=more)}" if more > 0 else shown or SAME


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
    profile = load_scheduling(scheduler_config).profile
    given = load_input(
        files,
        max_file_size=max_file_size,
        verbose=verbose,
        with_hub=with_hub,
        hub=hub,
        expressions=True,
        debits=bool(debits_of(profile).defaults),
    )
    world = World((loaded.object for loaded in given.objects), profile=profile)
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
    work = (_place(world, key, micros, documents=output != "table") for key in keys)
    placed = list(tracked(work, "placing", total=len(keys)))
    if output != "table":
        emit([], columns={}, output=output, document=_document(placed))
    else:
        _print(placed, reasons=reasons, everything=everything, live=bool(given.server))
    return EXIT_NO if strict and not all(result.idle or result.satisfied for result in placed) else EXIT_OK


def _placements_of_files(given: Input) -> set[Key]:
    """Return the placements in files."""
    placements = given.files.of(Placement) if given.files else ()
    return {(placement.metadata.namespace, placement.metadata.name) for placement in placements}


def _place(world: World, key: Key, now: int, *, documents: bool) -> Placed:
    before = recorded(world, key)
    verdict = world.ask(key, now=now)
    workload = world.workload(key)
    good, reason = satisfied(verdict)
    placement, pages = world.written(key, verdict, now=now) if documents else (workload.placement, [])
    return Placed(
        key=key,
        verdict=verdict,
        idle=disabled_reason(workload.placement) if workload.idle else "",
        satisfied=good and verdict.status.code is not Code.MISCONFIGURED,
        reason=reason,
        advice=() if workload.idle else advise(workload.placement, verdict),
        before=before,
        objects=(placement, *pages) if documents else (),
    )


def _print(placed: list[Placed], *, reasons: bool, everything: bool, live: bool) -> None:
    if reasons:
        for at, result in enumerate(placed):
            _print_reasons(result, first=at == 0, everything=everything, live=live)
        return
    rows = [
        {
            "placement": result.name,
            "clusters": "" if result.idle else result.clusters,
            "satisfied": SKIPPED if result.idle else result.reason,
            "change": "" if result.idle else result.change,
            "chosen": "" if result.idle else _chosen(result, everything=everything),
        }
        for result in placed
    ]
    columns = {
        "placement": "Placement",
        "clusters": "Clusters",
        "satisfied": "Satisfied",
        **({"change": "On the hub"} if live else {}),
        "chosen": "Chosen (score)",
    }
    emit(rows, columns=columns)
    notes = [line for result in placed for line in _notes(result, everything=everything)]
    if notes:
        say("\n" + "\n".join(notes))


def _chosen(placed: Placed, *, everything: bool) -> str:
    shown: list[str] = []
    total = placed.verdict.selected
    for name, _, score in placed.verdict.outcome.reasons():
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
    noun = "cluster" if placed.verdict.selected == 1 else "clusters"
    heading = HEADING.format(
        placement=placed.name, clusters=f"{placed.clusters} {noun}", satisfied=placed.reason
    )
    say(f"{heading}; on the hub: {placed.change}" if live else heading)
    groups = _groups(placed.verdict)
    rows: list[dict[str, object]] = []
    for name, why, score in placed.verdict.outcome.reasons():
        if len(rows) == SHOWN_WITH_REASONS and not everything:
            break
        why = "; ".join((why, *_score_notes(placed.verdict, name)))
        rows.append({"cluster": name, "score": score, "group": groups.get(name, ""), "why": why})
    if rows:
        grouped = {"group": "Group"} if groups else {}
        columns = {"cluster": "Cluster", "score": "Score", **grouped, "why": "Why"}
        table = plain_table(rows, columns=columns, width=terminal_width(indent="  "))
        say("\n".join(f"  {line}" for line in table.splitlines()))
    if placed.verdict.selected > len(rows):
        say(f"  {MORE.format(count=placed.verdict.selected - len(rows))} (--all shows them)")
    for line in _notes(placed, everything=everything):
        say(f"  {line}")


def _score_notes(verdict: Verdict, cluster: str) -> Iterator[str]:
    """Yield what prioritizers note about valid scores of a cluster, such as debits."""
    for part in Trace(verdict.outcome).host(cluster).contributions:
        if part.known and part.note:
            yield f"{part.plugin}: {part.note}"


def _groups(verdict: Verdict) -> dict[str, str]:
    """Return the decision group of each cluster, as index and name; empty for a single unnamed group."""
    if len(verdict.groups) == 1 and not verdict.groups[0].decisionGroupName:
        return {}
    return {
        cluster: f"{page.labels[GROUP_INDEX_LABEL]} {page.labels.get(GROUP_NAME_LABEL, '')}".rstrip()
        for page in verdict.pages
        for cluster in page.clusters
    }


def _notes(placed: Placed, *, everything: bool) -> Iterator[str]:
    if placed.idle:
        yield NOTE.format(placement=placed.name, kind=SKIPPED, message=placed.idle)
    for advice in placed.advice:
        yield NOTE.format(
            placement=placed.name, kind=advice.kind, message=advice.message if everything else advice.brief
        )
        if advice.remedy:
            yield REMEDY.format(remedy=advice.remedy)


def _document(placed: list[Placed]) -> dict[str, Any]:
    """Return each Placement followed by its PlacementDecisions."""
    items = [_encoded(thing) for result in placed for thing in result.objects]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _encoded(thing: Placement | PlacementDecision) -> dict[str, Any]:
    document: dict[str, Any] = encode(thing)
    if isinstance(thing, PlacementDecision):
        # A Placement from a file has no uid, and the API server rejects owners without one.
        owners = [owner for owner in document["metadata"].pop("ownerReferences", ()) if owner.get("uid")]
        if owners:
            document["metadata"]["ownerReferences"] = owners
    return document
