"""Where a placement is in the controller's queue, as lines of `fairway explain`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fairway.cli.output import cell
from fairway.engine.queue import State
from fairway.placement.conditions import ALL_SCHEDULED

if TYPE_CHECKING:
    from fairway.whatif.explain import Explanation

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
    from fairway.controllers.serving import ask_locally

    return ask_locally(server, namespace=key[0], name=key[1])


def waits(found: "Explanation", recorded: Sequence[str] | None, queue: Mapping[str, Any] | None) -> bool:
    """Return whether a placement waits: it is unsatisfied, not as the hub has it, or about to be decided."""
    if found.disabled_reason:
        return False
    decided = recorded is not None and set(recorded) == {each.host for each in found.chosen}
    return (
        not decided
        or found.reason != ALL_SCHEDULED
        or (queue is not None and queue["state"] != State.SETTLED.value)
    )


def queue_lines(found: dict[str, Any] | None, *, name: str) -> Iterator[str]:
    if found is None:
        yield UNKNOWN.format(name=name)
        return
    tried = found["attempts"]
    yield QUEUE.format(
        state=found["state"],
        since=found["since"],
        attempts="tried once" if tried == 1 else f"tried {tried:,} times",
        trigger=f": {cell(found['trigger'])}" if found["trigger"] else "",
    )
    if not found["leading"]:
        yield STANDBY
    yield from (REASON.format(reason=cell(each)) for each in found["reasons"])
    if found["nextTry"]:
        yield NEXT_TRY.format(time=found["nextTry"])
    if found["wakes"]:
        yield WAKES
        yield from (WAKE.format(change=cell(each)) for each in found["wakes"])
