"""`fairway hosting`: show the room of hosting clusters, try requests, and plan moves of hosted clusters.

Of these, only `rebalance --apply` writes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.client.session import HubChoice, talk
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError, NegativeAnswerError
from fairway.cli.options.input import Input, input_options, load_input, moment
from fairway.cli.options.scheduler import load_scheduling, scheduler_option
from fairway.cli.output import OutputFormat, emit, output_option, say

if TYPE_CHECKING:
    from fairway.api.hosted_request import HostedClusterRequest
    from fairway.engine.workload import WorkloadKey
    from fairway.fleet.instant import Micros
    from fairway.hosting import HostingState, HostReport, Move, MovePlan
    from fairway.kube import Client

NO_HOSTS: Final = (
    "no hosting cluster: no ManagedCluster has the claim hostingcluster.hypershift.openshift.io=true"
)
NO_REQUESTS: Final = "no HostedClusterRequest to place; name a file with one with -f"
UNKNOWN_HOST: Final = "there is no hosting cluster {name!r}; hosting clusters: {known}"
NOTHING_TO_MOVE: Final = "{host} carries no hosted cluster of a HostedClusterRequest."
WITHIN_POLICY: Final = "All hosting clusters are within policy: nothing to move."
FITS: Final = "{count} hosted clusters fit on other hosting clusters; frozen for {freeze} in all."
STUCK: Final = "{count} hosted clusters do not fit elsewhere: {host} cannot be drained."
PLAN: Final = "Plan {hash}: {count} moves, frozen for {freeze} in all{fewest}."
FEWEST: Final = "; fewer moves are not enough"
REMAINING: Final = "no plan brings these within policy: add room, or relax the policy"
APPLY: Final = "Approve it with: fairway hosting rebalance --apply {hash}"
CHANGED: Final = (
    "plan {given} is not the current plan, which is {hash}: the fleet has changed; review the plan again"
)
APPLIED: Final = (
    "{count} moves approved. The hosting controller moves {new} hosted clusters that do not exist yet; {existing} "
    "exist, and keep their place until their data is moved."
)
NEEDS_HUB: Final = "--apply writes to a hub: leave out -f"
SHOWN: Final = 3


@click.group(
    short_help="Show room for hosted clusters, try requests, and plan moves.",
    epilog="""\b
Examples:
  fairway hosting capacity
  fairway hosting place -f request.yaml --hub
  fairway hosting explain default/shop
  fairway hosting drain host-1
  fairway hosting rebalance
""",
)
def hosting() -> None:
    """Show the room of hosting clusters, try requests, and plan moves of hosted clusters."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    state: "HostingState"
    requests: "list[HostedClusterRequest]"
    given: Input
    now: "Micros"


_now: Final = click.option("--now", type=moment, metavar="TIME", help="Decide at this time.  [default: now]")


def _load(now: datetime | None, *, scheduler_config: Path | None, **inputs: Any) -> _Loaded:
    from fairway.api.hosted_request import HostedClusterRequest
    from fairway.cli.client.objects import HOSTING
    from fairway.fleet.instant import to_micros
    from fairway.hosting import HostingState
    from fairway.placement.debits import debits_of

    given = load_input(resources=HOSTING, **inputs)
    micros = to_micros(now or datetime.now(UTC))
    profile = load_scheduling(scheduler_config, beside_pods=True).placement
    state = HostingState(debits=debits_of(profile))
    objects = [each.object for each in given.objects]
    state.load(objects, now=micros)
    if not state.facts:
        raise BadInputError(NO_HOSTS)
    requests = [each for each in objects if isinstance(each, HostedClusterRequest)]
    return _Loaded(state, requests, given, micros)


@hosting.command(
    short_help="Show the room of each hosting cluster.",
    epilog="""\b
Examples:
  fairway hosting capacity
  fairway hosting capacity -f fleet.yaml -o json

\b
HOSTED is the published number of hosted clusters, RESERVED those that it does not include yet: requests, and decisions
of Placements with score debits, which are named below the table. SMALL, MEDIUM and LARGE are how many more of that size
fit, if all are of that size. HEADROOM is the free share of LIMITED BY, the fullest
dimension.
""",
)
@_now
@scheduler_option
@output_option
@input_options
def capacity(output: OutputFormat, now: datetime | None, **inputs: Any) -> int:
    """Show how many more hosted clusters fit on each hosting cluster, and what limits it."""
    from fairway.hosting import reports
    from fairway.hosting.placement_promises import describe_promises

    loaded = _load(now, **inputs)
    rows = [
        {
            "host": each.host,
            "model": each.model,
            "hosted": each.hosted,
            "reserved": each.reserved,
            **each.slots,
            "headroom": None if each.headroom is None else f"{each.headroom} %",
            "limit": each.limited_by,
            "problem": each.problem,
        }
        for each in reports(loaded.state)
    ]
    fixed = {"host", "model", "hosted", "reserved", "headroom", "limit", "problem"}
    sizes = {key: key for row in rows for key in row if key not in fixed}
    columns = {
        "host": "Host",
        "model": "Model",
        "hosted": "Hosted",
        "reserved": "Reserved",
        **sizes,
        "headroom": "Headroom",
        "limit": "Limited by",
        "problem": "Problem",
    }
    document = [_plain(each) for each in reports(loaded.state)]
    emit(rows, columns=columns, output=output, document=None if output == "table" else document)
    if output == "table":
        for each in reports(loaded.state):
            if each.promised:
                say(f"{each.host}: {describe_promises(each.promised)}")
    return EXIT_OK


def _plain(report: "HostReport") -> dict[str, Any]:
    return {
        "host": report.host,
        "model": report.model,
        "hosted": report.hosted,
        "reserved": report.reserved,
        "placements": [_name(each) for each in report.promised],
        "slots": dict(report.slots),
        "headroomPercent": report.headroom,
        "limitedBy": report.limited_by,
        "problem": report.problem,
    }


@hosting.command(
    short_help="Try requests, without writing.",
    epilog="""\b
Examples:
  fairway hosting place
  fairway hosting place -f request.yaml --hub
  fairway hosting place -f fleet.yaml -f requests.yaml -o yaml

\b
Without -f, the requests of the hub that have no hosting cluster yet are tried; with -f, those of the files. Each sees
what the ones before it reserve, in the order of priority. Nothing is written, and quiet hours are ignored.
Exit status: 0 all fit, 1 at least one does not, 2 bad input.
""",
)
@_now
@scheduler_option
@output_option
@input_options
def place(output: OutputFormat, now: datetime | None, **inputs: Any) -> int:
    """Show on which hosting cluster each request would be placed, and why."""
    from fairway.api.hosted_request import HostedClusterRequest
    from fairway.hosting import changes_that_fit
    from fairway.hosting import place as place_all

    loaded = _load(now, **inputs)
    files = loaded.given.files
    wanted = list(files.of(HostedClusterRequest)) if files is not None else loaded.requests
    wanted = [each for each in wanted if each.status.hostingCluster is None]
    if not wanted:
        raise BadInputError(NO_REQUESTS)
    decisions = place_all(loaded.state, wanted, now=loaded.now, quiet=False)
    by_key = {(each.metadata.namespace, each.metadata.name): each for each in wanted}
    rows: list[dict[str, Any]] = []
    for each in decisions:
        request = by_key[each.key.namespace, each.key.name]
        fits: tuple[str, ...] = ()
        if each.host is None:
            fits = changes_that_fit(loaded.state, loaded.state.workload_of(request), now=loaded.now)
        rows.append(
            {
                "request": _name(each.key),
                "host": each.host.name if each.host else "",
                "total": each.total,
                "scores": {score.plugin: score.score * score.weight for score in each.scores},
                "message": each.message,
                "rejections": [
                    {
                        "reason": rejection.reason,
                        "plugin": rejection.plugin,
                        "count": rejection.count,
                        "clusters": list(rejection.clusters),
                    }
                    for rejection in each.rejections
                ],
                "wouldFit": list(fits),
            }
        )
    table = [{**row, "why": row["message"] or row["scores"]} for row in rows]
    columns = {"request": "Request", "host": "Host", "total": "Score", "why": "Why"}
    emit(table, columns=columns, output=output, document=None if output == "table" else rows)
    if output == "table":
        for row in rows:
            for change in row["wouldFit"]:
                say(f"{row['request']}: would fit with: {change}")
    return EXIT_OK if all(each.host for each in decisions) else EXIT_NO


@hosting.command(
    short_help="Plan where the hosted clusters of a host would move.",
    epilog="""\b
Examples:
  fairway hosting drain host-1
  fairway hosting drain host-1 -f fleet.yaml -o json

\b
Nothing is written. Exit status: 0 everything fits elsewhere, 1 it does not, 2 bad input.
""",
)
@click.argument("host")
@_now
@scheduler_option
@output_option
@input_options
def drain(host: str, output: OutputFormat, now: datetime | None, **inputs: Any) -> int:
    """Plan where the hosted clusters of HOST would move, and whether they fit."""
    from fairway.hosting import drain as plan_drain

    loaded = _load(now, **inputs)
    facts = loaded.state.facts.get(host)
    if facts is None:
        raise BadInputError(UNKNOWN_HOST.format(name=host, known=", ".join(sorted(loaded.state.facts))))
    plan = plan_drain(loaded.state, loaded.requests, facts.key, now=loaded.now)
    if output != "table":
        emit([], columns={}, output=output, document=_document(plan))
        return EXIT_NO if plan.stuck else EXIT_OK
    if plan.moves or plan.stuck:
        _print_moves(plan)
        if plan.stuck:
            say(STUCK.format(count=len(plan.stuck), host=host))
        else:
            say(FITS.format(count=len(plan.moves), freeze=_duration(plan.freeze)))
    else:
        say(NOTHING_TO_MOVE.format(host=host))
    for note in plan.notes:
        say(note)
    return EXIT_NO if plan.stuck else EXIT_OK


@hosting.command(
    short_help="Plan the fewest moves that bring the fleet within policy.",
    epilog="""\b
Examples:
  fairway hosting rebalance
  fairway hosting rebalance --apply 3bdfe398de8c

\b
A plan lists the moves with their cost. Nothing happens until you approve the same plan by its hash. FROZEN is an
estimate: 10, 20 and 40 minutes for a small, medium and large hosted cluster, and none for one that does not exist yet.
Exit status: 0 within policy, or the plan leads there; 1 no plan does, or the plan has changed; 2 bad input.
""",
)
@click.option("--apply", "approved", metavar="HASH", help="Approve the plan with this hash.")
@_now
@scheduler_option
@output_option
@input_options
def rebalance(
    approved: str | None, output: OutputFormat, now: datetime | None, hub: HubChoice, **inputs: Any
) -> int:
    """Plan the fewest moves of hosted clusters after which no hosting cluster violates a policy."""
    from fairway.hosting import rebalance as plan_moves

    if approved is not None and inputs["files"]:
        raise BadInputError(NEEDS_HUB)
    loaded = _load(now, hub=hub, **inputs)
    plan = plan_moves(loaded.state, loaded.requests, now=loaded.now)
    if approved is not None and approved != plan.hash:
        raise NegativeAnswerError(CHANGED.format(given=approved, hash=plan.hash))
    if approved is not None:
        talk(hub, lambda client: _approve(client, plan.moves, plan.hash))
    if output != "table":
        emit([], columns={}, output=output, document=_document(plan))
    elif not plan.before:
        say(WITHIN_POLICY)
    else:
        _print_plan(plan)
        if approved is not None:
            existing = sum(each.freeze > 0 for each in plan.moves)
            new = len(plan.moves) - existing
            say(APPLIED.format(count=len(plan.moves), new=new, existing=existing))
        elif plan.moves:
            say(APPLY.format(hash=plan.hash))
    return EXIT_NO if plan.after else EXIT_OK


async def _approve(client: "Client", moves: "Iterable[Move]", plan: str) -> None:
    """Record the approved moves on the requests, which the hosting controller carries out."""
    from fairway.hosting.workload import MOVE_PLAN, MOVE_TO
    from fairway.kube import HOSTED_CLUSTER_REQUESTS, Patch

    for each in moves:
        annotations = {MOVE_TO: each.target.name, MOVE_PLAN: plan}
        body = {"metadata": {"uid": each.key.uid, "annotations": annotations}}
        await client.patch(
            HOSTED_CLUSTER_REQUESTS, each.key.name, body, kind=Patch.MERGE, namespace=each.key.namespace
        )


def _print_plan(plan: "MovePlan") -> None:
    emit(
        [{"host": each.host, "problem": each.message} for each in plan.before],
        columns={"host": "Host", "problem": "Violation"},
    )
    say()
    if plan.moves:
        _print_moves(plan)
        fewest = FEWEST if plan.fewest else ""
        say(PLAN.format(hash=plan.hash, count=len(plan.moves), freeze=_duration(plan.freeze), fewest=fewest))
    for each in plan.after:
        say(f"{each.host}: {each.message}")
    if plan.after:
        say(REMAINING)


def _print_moves(plan: "MovePlan") -> None:
    rows: list[dict[str, object]] = [
        {
            "request": _name(each.key),
            "size": each.size,
            "from": each.source.name,
            "to": each.target.name,
            "frozen": _duration(each.freeze),
        }
        for each in plan.moves
    ]
    rows += [
        {"request": _name(each.key), "from": each.source.name, "frozen": each.reason} for each in plan.stuck
    ]
    columns = {"request": "Request", "size": "Size", "from": "From", "to": "To", "frozen": "Frozen"}
    emit(rows, columns=columns)


def _document(plan: "MovePlan") -> dict[str, Any]:
    return {
        "hash": plan.hash,
        "fewest": plan.fewest,
        "violations": [{"host": each.host, "message": each.message} for each in plan.before],
        "remaining": [{"host": each.host, "message": each.message} for each in plan.after],
        "moves": [
            {
                "request": _name(each.key),
                "from": each.source.name,
                "to": each.target.name,
                "size": each.size,
                "freezeSeconds": each.freeze // 1_000_000,
            }
            for each in plan.moves
        ],
        "stuck": [
            {"request": _name(each.key), "from": each.source.name, "reason": each.reason}
            for each in plan.stuck
        ],
        "notes": list(plan.notes),
    }


def _name(key: "WorkloadKey") -> str:
    return f"{key.namespace}/{key.name}"


def _duration(micros: int) -> str:
    minutes = micros // 60_000_000
    return f"{minutes} min"
