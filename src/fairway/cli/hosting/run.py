"""`fairway hosting`: show the room of hosting clusters, try requests, and plan moves of hosted clusters.

Of these, only `--apply` writes.
"""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from fairway.api.amount_display import display_share
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS
from fairway.cli.client.objects import HOSTING
from fairway.cli.client.session import talk
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError, NegativeAnswerError
from fairway.cli.input import Input, load_input
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.scheduling import load_hosting_scheduling, load_scheduling
from fairway.cli.text import say
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.instant import Micros, to_micros
from fairway.workloads.hosting import HostingState, HostReport, Move, MovePlan, changes_that_fit, reports
from fairway.workloads.hosting import drain as plan_drain
from fairway.workloads.hosting import rebalance as plan_moves
from fairway.workloads.hosting.fleet.placement_promises import describe_promises
from fairway.workloads.hosting.planning.placing import place_on
from fairway.workloads.hosting.planning.violations import Violation
from fairway.workloads.hosting.requests.refusal_groups import content_of, group_of
from fairway.workloads.hosting.workload import MOVE_PLAN, MOVE_TO, key_of
from fairway.workloads.placement.debits import debits_of
from kubewire.client import Client, Patch

NO_HOSTS: Final = (
    "no hosting cluster: no ManagedCluster has the claim hostingcluster.hypershift.openshift.io=true"
)
NO_REQUESTS: Final = "no HostedClusterRequest to place; name a file with one with -f"
EXISTS: Final = (
    "fairway: {name} exists on the hub, and is hosted on {host}: applying the file changes that request. For another "
    "hosted cluster, write another metadata.name"
)
UNKNOWN_HOST: Final = "there is no hosting cluster {name!r}; hosting clusters: {known}"
NOTHING_TO_MOVE: Final = "{host} carries no hosted cluster of a HostedClusterRequest."
WITHIN_POLICY: Final = "All hosting clusters are within policy: nothing to move."
FITS: Final = "{count} hosted clusters fit on other hosting clusters; frozen for {freeze} in all."
STUCK: Final = "{count} hosted clusters do not fit elsewhere: {host} cannot be drained."
PLAN: Final = "Plan {hash}: {count} moves, frozen for {freeze} in all."
PROOFS: Final = {
    "Cheapest": "Proved: no plan has fewer moves, and none of as many is frozen for less.",
    "Fewest": "Proved: no plan has fewer moves. One of as many may be frozen for less.",
    "NotProved": (
        "Not proved to be the fewest: {count} moves are enough, and at least {bound} are needed. The search ended at "
        "its limit."
    ),
    "Impossible": "Proved: no plan exists{partly}. Add room, or relax the policy.",
    "NotFound": (
        "No plan was found within the limit of the search{partly}. One may exist; it has at least {bound} moves."
    ),
}
"""What is stated of a plan, by its proof."""
PARTLY: Final = " that does all of it; the moves above do a part"
WITHIN_POLICY_AMONG: Final = "Within policy: {hosts}. Nothing to move."
WITHIN_POLICY_BUT: Final = "All available hosting clusters are within policy: nothing to move."
APPLY: Final = "Approve it with: fairway hosting {command} --apply {hash}"
CHANGED: Final = (
    "plan {given} is not the current plan, which is {hash}: the hash is mistyped, or the fleet has changed since; "
    "review the plan again"
)
NEAR: Final = "plan {given} is not the current plan; did you mean {hash}?"
NO_HASH: Final = "{given!r} is not the hash of a plan: write the 12 digits that the plan prints"
NOTHING_TO_APPROVE: Final = "the current plan has no moves: there is nothing to approve"
APPLIED: Final = (
    "{count} moves approved. The hosting controller moves {new} hosted clusters that do not exist yet; {existing} "
    "exist, and keep their place until their data is moved."
)
DRAIN_LOST: Final = (
    "{host} is lost: nothing can be copied from it. Plan where its hosted clusters are created again, empty: fairway "
    "hosting recover {host}"
)
NEEDS_HUB: Final = "--apply writes to a hub: leave out -f"
RESOLVED: Final = "resolved"
REMAINS: Final = "remains"
NEW: Final = "new"
_HASH: Final = re.compile("[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Loaded:
    state: HostingState
    requests: list[HostedClusterRequest]
    given: Input
    now: Micros


def load(now: datetime | None, *, scheduler_config: Path | None, **inputs: Any) -> Loaded:
    given = load_input(resources=HOSTING, **inputs)
    micros = to_micros(now or datetime.now(UTC))
    placements = load_scheduling(scheduler_config, beside_pods=True).profile
    profile = load_hosting_scheduling(scheduler_config).profile
    state = HostingState(debits=debits_of(placements), profile=profile)
    objects = [loaded.object for loaded in given.objects]
    state.load(objects, now=micros)
    if not state.facts:
        raise BadInputError(NO_HOSTS)
    requests = [thing for thing in objects if isinstance(thing, HostedClusterRequest)]
    return Loaded(state, requests, given, micros)


def capacity(output: OutputFormat, now: datetime | None, **inputs: Any) -> int:
    loaded = load(now, **inputs)
    rows = [
        {
            "host": report.host,
            "model": report.model,
            "hosted": report.hosted,
            "reserved": report.reserved,
            **report.slots,
            "headroom": None if report.headroom is None else display_share(report.headroom / 100),
            "limit": report.limited_by,
            "problem": report.problem,
        }
        for report in reports(loaded.state, now=loaded.now)
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
    document = [_plain(report) for report in reports(loaded.state, now=loaded.now)]
    emit(rows, columns=columns, output=output, document=None if output == "table" else document)
    if output == "table":
        for report in reports(loaded.state, now=loaded.now):
            if report.promised:
                say(f"{report.host}: {describe_promises(report.promised)}")
    return EXIT_OK


def _plain(report: HostReport) -> dict[str, Any]:
    return {
        "host": report.host,
        "model": report.model,
        "hosted": report.hosted,
        "reserved": report.reserved,
        "placements": [name_of(key) for key in report.promised],
        "slots": dict(report.slots),
        "headroomPercent": report.headroom,
        "limitedBy": report.limited_by,
        "problem": report.problem,
    }


def place(output: OutputFormat, now: datetime | None, **inputs: Any) -> int:
    loaded = load(now, **inputs)
    files = loaded.given.files
    wanted = loaded.requests
    if files is not None:
        # As they would be on the hub: one that the hub has with a place keeps it.
        named = {
            thing.metadata.namespace + "/" + thing.metadata.name for thing in files.of(HostedClusterRequest)
        }
        wanted = [request for request in wanted if name_of(key_of(request)) in named]
    hosted = [request for request in wanted if request.status.hostingCluster is not None]
    wanted = [request for request in wanted if request.status.hostingCluster is None]
    if loaded.given.server and files is not None:
        for request in hosted:
            assert request.status.hostingCluster is not None
            name, host = name_of(key_of(request)), request.status.hostingCluster.name
            say(EXISTS.format(name=name, host=host), stream=sys.stderr)
    if not wanted:
        raise BadInputError(NO_REQUESTS)
    trial = loaded.state.fork()
    decisions = place_on(trial, wanted, now=loaded.now, quiet=False, complete=output != "table")
    by_key = {(request.metadata.namespace, request.metadata.name): request for request in wanted}
    rows: list[dict[str, Any]] = []
    known: dict[Any, tuple[str, ...]] = {}
    for decision in decisions:
        request = by_key[decision.key.namespace, decision.key.name]
        fits: tuple[str, ...] = ()
        if decision.host is None:
            # Beside what the others reserve, as the controller tries it.
            workload = trial.workload_of(request)
            group = (group_of(workload), content_of(workload))
            if group not in known:
                known[group] = changes_that_fit(trial, workload, now=loaded.now)
            fits = known[group]
        rows.append(
            {
                "request": name_of(decision.key),
                "host": decision.host.name if decision.host else "",
                "total": decision.total,
                "scores": {score.plugin: score.score * score.weight for score in decision.scores},
                "message": decision.message,
                "rejections": [
                    {
                        "reason": rejection.reason,
                        "plugin": rejection.plugin,
                        "count": rejection.count,
                        "clusters": list(rejection.clusters),
                    }
                    for rejection in decision.rejections
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
    return EXIT_OK if all(decision.host for decision in decisions) else EXIT_NO


def drain(
    hosts: tuple[str, ...],
    approved: str | None,
    output: OutputFormat,
    now: datetime | None,
    hub: HubChoice,
    **inputs: Any,
) -> int:
    if approved is not None and inputs["files"]:
        raise BadInputError(NEEDS_HUB)
    loaded = load(now, hub=hub, **inputs)
    for host in hosts:
        if host not in loaded.state.facts and any(key.name == host for key in loaded.state.residents.hosts()):
            raise NegativeAnswerError(DRAIN_LOST.format(host=host))
    plan = plan_drain(loaded.state, loaded.requests, keys_of(loaded.state, hosts), now=loaded.now)
    names = " ".join(dict.fromkeys(hosts))
    if approved is not None:
        if plan.lost:
            raise NegativeAnswerError(DRAIN_LOST.format(host=plan.lost[0]))
        _approve_plan(hub, plan, approved)
    failed = bool(plan.stuck or plan.lost)
    if output != "table":
        emit([], columns={}, output=output, document=_document(plan))
        return EXIT_NO if failed else EXIT_OK
    if plan.moves or plan.stuck:
        _print_moves(plan)
        if plan.stuck:
            say(STUCK.format(count=len(plan.stuck), host=names))
            say(_proved(plan))
        else:
            say(FITS.format(count=len(plan.moves), freeze=_duration(plan.freeze)))
        if plan.moves and not plan.lost:
            _print_approval(plan, approved, command=f"drain {names}")
    else:
        say(NOTHING_TO_MOVE.format(host=" or ".join(dict.fromkeys(hosts))))
    for note in plan.notes:
        say(note)
    return EXIT_NO if failed else EXIT_OK


def keys_of(state: HostingState, names: Iterable[str]) -> tuple[HostKey, ...]:
    """Return hosting clusters by name. Raises BadInputError if there is none of a name."""
    for name in names:
        if name not in state.facts:
            raise BadInputError(UNKNOWN_HOST.format(name=name, known=", ".join(sorted(state.facts))))
    return tuple(state.facts[name].key for name in dict.fromkeys(names))


def rebalance(
    hosts: tuple[str, ...],
    approved: str | None,
    output: OutputFormat,
    now: datetime | None,
    hub: HubChoice,
    **inputs: Any,
) -> int:
    if approved is not None and inputs["files"]:
        raise BadInputError(NEEDS_HUB)
    loaded = load(now, hub=hub, **inputs)
    among = keys_of(loaded.state, hosts) if hosts else None
    plan = plan_moves(loaded.state, loaded.requests, among, now=loaded.now)
    if approved is not None:
        _approve_plan(hub, plan, approved)
    if output != "table":
        emit([], columns={}, output=output, document=_document(plan))
        return EXIT_NO if plan.after or plan.lost else EXIT_OK
    if not plan.before:
        text = WITHIN_POLICY_BUT if plan.notes else WITHIN_POLICY
        say(WITHIN_POLICY_AMONG.format(hosts=", ".join(dict.fromkeys(hosts))) if hosts else text)
    else:
        _print_plan(plan)
        if plan.moves:
            _print_approval(plan, approved, command=" ".join(["rebalance", *dict.fromkeys(hosts)]))
    for note in plan.notes:
        say(note)
    return EXIT_NO if plan.after or plan.lost else EXIT_OK


def _approve_plan(hub: HubChoice, plan: MovePlan, approved: str) -> None:
    """Raises NegativeAnswerError unless the current plan is the approved one."""
    check_hash(plan.hash if plan.moves else None, approved)
    talk(hub, lambda client: _approve(client, plan.moves, plan.hash))


def check_hash(current: str | None, approved: str) -> None:
    """Raises BadInputError if a hash is none, and NegativeAnswerError if it is not that of the current plan.

    ``current`` is None if there is nothing to approve.
    """
    if not _HASH.fullmatch(approved):
        raise BadInputError(NO_HASH.format(given=approved))
    if current is None:
        raise NegativeAnswerError(NOTHING_TO_APPROVE)
    if approved != current:
        # Hashes of other plans have nothing in common.
        text = NEAR if get_close_matches(approved, [current], cutoff=0.75) else CHANGED
        raise NegativeAnswerError(text.format(given=approved, hash=current))


def _print_approval(plan: MovePlan, approved: str | None, *, command: str) -> None:
    if approved is None:
        say(APPLY.format(command=command, hash=plan.hash))
        return
    existing = sum(move.freeze > 0 for move in plan.moves)
    say(APPLIED.format(count=len(plan.moves), new=len(plan.moves) - existing, existing=existing))


async def _approve(client: Client, moves: Iterable[Move], plan: str) -> None:
    """Record the approved moves on the requests, which the hosting controller carries out."""
    for move in moves:
        annotations = {MOVE_TO: move.target.name, MOVE_PLAN: plan}
        body = {"metadata": {"uid": move.key.uid, "annotations": annotations}}
        await client.patch(
            HOSTED_CLUSTER_REQUESTS, move.key.name, body, kind=Patch.MERGE, namespace=move.key.namespace
        )


def violation_rows(before: Iterable[Violation], after: Iterable[Violation]) -> list[dict[str, str]]:
    """Return one row for each violation, with what becomes of it."""
    # With fewer hosted clusters on the host, a violation has another message, and is still the same one.
    left = {(violation.host, violation.limit): violation.message for violation in after}
    rows = []
    for violation in before:
        message = left.pop((violation.host, violation.limit), RESOLVED)
        state = REMAINS if message == violation.message else message
        rows.append({"host": violation.host, "problem": violation.message, "after": state})
    return rows + [{"host": host, "problem": message, "after": NEW} for (host, _), message in left.items()]


def _print_plan(plan: MovePlan) -> None:
    rows = violation_rows(plan.before, plan.after)
    columns = {"host": "Host", "problem": "Violation"}
    emit(rows, columns={**columns, "after": "After the moves"} if plan.moves else columns)
    say()
    if plan.moves:
        _print_moves(plan)
        say(PLAN.format(hash=plan.hash, count=len(plan.moves), freeze=_duration(plan.freeze)))
    say(_proved(plan))


def _proved(plan: MovePlan) -> str:
    """Return what the plan states about itself."""
    partly = PARTLY if plan.moves else ""
    return PROOFS[plan.proof.value].format(count=len(plan.moves), bound=plan.lower_bound, partly=partly)


def _print_moves(plan: MovePlan) -> None:
    rows: list[dict[str, object]] = [
        {
            "request": name_of(move.key),
            "size": move.size,
            "from": move.source.name,
            "to": move.target.name,
            "frozen": _duration(move.freeze),
        }
        for move in plan.moves
    ]
    rows += [
        {"request": name_of(stuck.key), "size": stuck.size, "from": stuck.source.name, "reason": stuck.reason}
        for stuck in plan.stuck
    ]
    columns = {"request": "Request", "size": "Size", "from": "From", "to": "To", "frozen": "Frozen"}
    if plan.stuck:
        columns["reason"] = "Why it stays"
    emit(rows, columns=columns)


def _document(plan: MovePlan) -> dict[str, Any]:
    return {
        "hash": plan.hash if plan.moves else None,
        "fewest": plan.fewest,
        "proof": {
            "result": plan.proof.value,
            "statement": _proved(plan),
            "lowerBound": plan.lower_bound,
            "work": plan.work,
        },
        "violations": [{"host": violation.host, "message": violation.message} for violation in plan.before],
        "remaining": [{"host": violation.host, "message": violation.message} for violation in plan.after],
        "moves": [
            {
                "request": name_of(move.key),
                "from": move.source.name,
                "to": move.target.name,
                "size": move.size,
                "freezeSeconds": move.freeze // 1_000_000,
            }
            for move in plan.moves
        ],
        "stuck": [
            {"request": name_of(stuck.key), "from": stuck.source.name, "reason": stuck.reason}
            for stuck in plan.stuck
        ],
        "notes": list(plan.notes),
        "lostHosts": [host.name for host in plan.lost],
    }


def name_of(key: WorkloadKey) -> str:
    return f"{key.namespace}/{key.name}"


def _duration(micros: int) -> str:
    minutes = micros // 60_000_000
    return f"{minutes} min"
