"""`fairway hosting recover`: plan and approve where the hosted clusters of a lost hosting cluster go."""

from datetime import datetime
from typing import Any, Final

from fairway.api.resources import HOSTED_CLUSTER_REQUESTS
from fairway.cli.client.session import talk
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError, NegativeAnswerError
from fairway.cli.hosting.run import APPLY, NEEDS_HUB, UNKNOWN_HOST, check_hash, load, name_of
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.text import say
from fairway.workloads.hosting.planning.recovery import Approval, RecoveryPlan, plan_recovery
from fairway.workloads.hosting.workload import MOVE_PLAN, MOVE_TO, RECOVER_FROM
from kubewire.client import Client, Conflict, NotFound, Patch

AVAILABLE: Final = (
    "{host} is available: nothing to recover; to empty it, use: fairway hosting drain {host}; to see what its loss "
    "would do: fairway hosting lose {host}"
)
STATE: Final = "{host} {outage}."
NOTHING: Final = "No HostedClusterRequest can leave {host}."
EMPTY: Final = "created again, empty"
NEVER_CREATED: Final = "never reported"
LET_GO: Final = "deleted; not created again"
PLAN: Final = (
    "Plan {hash}: {recreated} hosted clusters are created again, empty: their data on {host} is given up. {new} were "
    "never reported, and {released} are deleted."
)
APPROVED_BEFORE: Final = "approved already; the hosting controller carries it out"
KEPT: Final = "{count} keep their place."
STUCK: Final = "{count} fit on no other hosting cluster."
APPROVED: Final = (
    "{count} recoveries approved; the hosting controller carries them out. Should {host} return, the agent there "
    "removes what it still runs of them."
)
RACE: Final = "{names} changed at the same time, and are not approved: plan again"


def recover(
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
    known = {*loaded.state.facts, *(key.name for key in loaded.state.residents.hosts())}
    for host in hosts:
        if host not in known:
            raise BadInputError(UNKNOWN_HOST.format(name=host, known=", ".join(sorted(known))))
    plan = plan_recovery(loaded.state, loaded.requests, hosts, now=loaded.now)
    absent = {outage.host.name for outage in plan.outages}
    for host in hosts:
        facts = loaded.state.facts.get(host)
        if host not in absent and facts is not None and loaded.state.outage(facts.key) is None:
            raise NegativeAnswerError(AVAILABLE.format(host=host))
    refused: list[str] = []
    if approved is not None:
        check_hash(plan.hash if plan.approvals else None, approved)
        refused = talk(hub, lambda client: _approve(client, plan))
    failed = bool(plan.kept or plan.stuck or refused)
    if output != "table":
        document = {**_document(plan), "approved": approved is not None, "refused": refused}
        emit([], columns={}, output=output, document=document)
        return EXIT_NO if failed else EXIT_OK
    for outage in plan.outages:
        words = outage.describe(loaded.state.lost_after(outage.host), now=loaded.now)
        say(STATE.format(host=outage.host, outage=words))
    names = " ".join(plan.hosts)
    _print(plan)
    if approved is not None:
        say(APPROVED.format(count=len(plan.approvals) - len(refused), host=names))
    elif plan.approvals:
        say(APPLY.format(command=f"recover {names}", hash=plan.hash))
    if refused:
        raise NegativeAnswerError(RACE.format(names=", ".join(refused)))
    return EXIT_NO if failed else EXIT_OK


def _print(plan: RecoveryPlan) -> None:
    rows = [
        {"request": name_of(move.key), "size": move.size, "to": move.target.name, "how": how}
        for move in plan.moves
        for how in (EMPTY if move.key in plan.recreated else NEVER_CREATED,)
    ]
    rows += [{"request": name_of(approval.key), "how": LET_GO} for approval in plan.released]
    rows += [{"request": name_of(key), "how": APPROVED_BEFORE} for key in plan.approved]
    rows += [
        {"request": name_of(stuck.key), "size": stuck.size, "how": stuck.reason}
        for stuck in (*plan.stuck, *plan.kept)
    ]
    if rows:
        emit(rows, columns={"request": "Request", "size": "Size", "to": "To", "how": "How"})
    if plan.approvals:
        recreated, released = len(plan.recreated), len(plan.released)
        new = len(plan.moves) - recreated
        host = " ".join(plan.hosts)
        say(PLAN.format(hash=plan.hash, host=host, recreated=recreated, new=new, released=released))
    elif not plan.approved:
        say(NOTHING.format(host=" or ".join(plan.hosts)))
    if plan.stuck:
        say(STUCK.format(count=len(plan.stuck)))
    if plan.kept:
        say(KEPT.format(count=len(plan.kept)))
    for violation in plan.after:
        say(f"{violation.host}: {violation.message}")


def _document(plan: RecoveryPlan) -> dict[str, Any]:
    return {
        "hosts": list(plan.hosts),
        "hash": plan.hash if plan.approvals else None,
        "moves": [
            {
                "request": name_of(move.key),
                "to": move.target.name,
                "size": move.size,
                "recreated": move.key in plan.recreated,
            }
            for move in plan.moves
        ],
        "released": [name_of(approval.key) for approval in plan.released],
        "approvedBefore": [name_of(key) for key in plan.approved],
        "stuck": [{"request": name_of(stuck.key), "reason": stuck.reason} for stuck in plan.stuck],
        "kept": [{"request": name_of(kept.key), "reason": kept.reason} for kept in plan.kept],
        "remaining": [{"host": violation.host, "message": violation.message} for violation in plan.after],
    }


async def _approve(client: Client, plan: RecoveryPlan) -> list[str]:
    """Record the approvals on the requests. Return those that have changed since they were read."""
    refused = [approval for approval in plan.approvals if not await _record(client, approval, plan.hash)]
    return [name_of(approval.key) for approval in refused]


async def _record(client: Client, approval: Approval, plan: str) -> bool:
    meta = approval.request.metadata
    annotations = {MOVE_PLAN: plan, RECOVER_FROM: approval.loss}
    if approval.target is not None:
        annotations[MOVE_TO] = approval.target.name
    body = {"uid": meta.uid, "resourceVersion": meta.resourceVersion, "annotations": annotations}
    try:
        await client.patch(
            HOSTED_CLUSTER_REQUESTS, meta.name, {"metadata": body}, kind=Patch.MERGE, namespace=meta.namespace
        )
    except (Conflict, NotFound):
        return False
    return True
