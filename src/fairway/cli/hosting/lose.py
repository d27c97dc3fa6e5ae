"""`fairway hosting lose`: what the loss of hosting clusters would leave without a place."""

from datetime import datetime
from typing import Any, Final

from fairway.cli.errors import EXIT_NO, EXIT_OK
from fairway.cli.hosting.run import keys_of, load, name_of
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.text import say
from fairway.workloads.hosting import Loss
from fairway.workloads.hosting import lose as what_if
from fairway.workloads.hosting.planning.move_search import MOST_WORK

SUMMARY: Final = (
    "If {hosts} failed, {fitting} of {hosted} hosted clusters would fit elsewhere, created again, empty."
)
OTHERS: Final = (
    "{count} hosted clusters there have no HostedClusterRequest, and count as small ones: {stranded} of these would "
    "not fit. Adopt them: fairway hosting adopt"
)
UNKNOWN: Final = "The load of {hosts} is unknown: hosted clusters without a request are not included."


def lose(
    hosts: tuple[str, ...], output: OutputFormat, now: datetime | None, hub: HubChoice, **inputs: Any
) -> int:
    loaded = load(now, hub=hub, **inputs)
    keys = keys_of(loaded.state, hosts or sorted(loaded.state.facts))
    groups = [keys] if hosts else [(key,) for key in keys]
    losses = [
        what_if(loaded.state, loaded.requests, group, now=loaded.now, most_work=MOST_WORK // len(groups))
        for group in groups
    ]
    if output != "table":
        emit([], columns={}, output=output, document=[_document(loss) for loss in losses])
    elif hosts:
        _print(losses[0])
    else:
        _print_all(losses)
    return EXIT_NO if any(loss.stranded for loss in losses) else EXIT_OK


def _print_all(losses: list[Loss]) -> None:
    rows = [
        {
            "host": loss.hosts[0].name,
            "hosted": "unknown" if loss.unknown else loss.hosted,
            "fitting": loss.hosted - loss.stranded,
            "stranded": loss.stranded,
            "reason": _reason(loss),
        }
        for loss in losses
    ]
    columns = {"host": "Host", "hosted": "Hosted", "fitting": "Fit elsewhere", "stranded": "Stranded"}
    if any(row["reason"] for row in rows):
        columns["reason"] = "Why"
    emit(rows, columns=columns)


def _reason(loss: Loss) -> str:
    return next((stuck.reason for stuck in loss.plan.stuck), "")


def _print(loss: Loss) -> None:
    rows = [
        {"request": name_of(move.key), "size": move.size, "from": move.source.name, "to": move.target.name}
        for move in loss.plan.moves
    ]
    rows += [
        {"request": name_of(stuck.key), "size": stuck.size, "from": stuck.source.name, "reason": stuck.reason}
        for stuck in loss.plan.stuck
    ]
    if rows:
        columns = {"request": "Request", "size": "Size", "from": "From", "to": "To"}
        if loss.plan.stuck:
            columns["reason"] = "Why it does not fit"
        emit(rows, columns=columns)
    hosts = " and ".join(host.name for host in loss.hosts)
    say(SUMMARY.format(hosts=hosts, fitting=loss.hosted - loss.stranded, hosted=loss.hosted))
    if loss.others:
        say(OTHERS.format(count=loss.others, stranded=loss.stranded_others))
    if loss.unknown:
        say(UNKNOWN.format(hosts=", ".join(loss.unknown)))


def _document(loss: Loss) -> dict[str, Any]:
    return {
        "hosts": [host.name for host in loss.hosts],
        "hosted": loss.hosted,
        "stranded": loss.stranded,
        "moves": [
            {
                "request": name_of(move.key),
                "from": move.source.name,
                "to": move.target.name,
                "size": move.size,
            }
            for move in loss.plan.moves
        ],
        "stuck": [
            {"request": name_of(stuck.key), "from": stuck.source.name, "reason": stuck.reason}
            for stuck in loss.plan.stuck
        ],
        "withoutRequest": {"hosted": loss.others, "stranded": loss.stranded_others},
        "unknownHosts": list(loss.unknown),
    }
