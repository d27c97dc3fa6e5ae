"""Where a placement is in the controller's queue, as lines of `fairway explain`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairway.cli.client.world import Recorded
from fairway.cli.text import cell
from fairway.controllers.serving import ask_locally
from fairway.engine.queue import State
from fairway.whatif.explain import Explanation
from fairway.workloads.placement.conditions import ALL_SCHEDULED

QUEUE: Final = "{state} since {since}, {attempts}{trigger}"
STANDBY: Final = "from a standby; the leader runs elsewhere"
NEXT_TRY: Final = "tried again at {time}, even if nothing changes"
REASON: Final = "reason: {reason}"
WAKES: Final = "what would wake it:"
WAKE: Final = "  {change}"
UNKNOWN: Final = (
    "unknown here; run this where the controllers run, as the same user, for example "
    "kubectl -n fairway-system exec deploy/fairway -- fairway explain placement {name}"
)


def queue_of(server: str, key: tuple[str, str]) -> dict[str, Any] | None:
    """Ask the controllers that run on this machine; None if they do not, or not as this user."""
    return ask_locally(server, namespace=key[0], name=key[1])


def waits(explanation: Explanation, recorded: Recorded | None, queue: Mapping[str, Any] | None) -> bool:
    """Return whether a placement waits: it is unsatisfied, not as the hub has it, or about to be decided."""
    if explanation.disabled_reason:
        return False
    decided = recorded is not None and set(recorded.clusters) == {host.host for host in explanation.chosen}
    return (
        not decided
        or explanation.reason != ALL_SCHEDULED
        or (queue is not None and queue["state"] != State.SETTLED.value)
    )


def queue_lines(queue: dict[str, Any] | None, *, name: str) -> Iterator[str]:
    if queue is None:
        yield UNKNOWN.format(name=name)
        return
    tried = queue["attempts"]
    yield QUEUE.format(
        state=queue["state"],
        since=queue["since"],
        attempts="tried once" if tried == 1 else f"tried {tried:,} times",
        trigger=f": {cell(queue['trigger'])}" if queue["trigger"] else "",
    )
    if not queue["leading"]:
        yield STANDBY
    yield from (REASON.format(reason=cell(reason)) for reason in queue["reasons"])
    if queue["nextTry"]:
        yield NEXT_TRY.format(time=queue["nextTry"])
    if queue["wakes"]:
        yield WAKES
        yield from (WAKE.format(change=cell(change)) for change in queue["wakes"])
