"""What the commit machine asks its caller to do, in this order."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fairway.engine.dependencies import Event
from fairway.engine.points import Bind, CommitContext, PostBind, PreBind
from fairway.engine.queue import Rejection, SchedulingQueue
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.instant import Micros


@dataclass(frozen=True, slots=True)
class RunPreBind:
    """Run ``plugin.pre_bind(context)`` and report its result with the token."""

    key: WorkloadKey
    token: int
    plugin: PreBind
    context: CommitContext


@dataclass(frozen=True, slots=True)
class RunBind:
    key: WorkloadKey
    token: int
    plugin: Bind
    context: CommitContext


@dataclass(frozen=True, slots=True)
class RunPostBind:
    key: WorkloadKey
    token: int
    plugin: PostBind
    context: CommitContext


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel what runs under this token; its result is ignored."""

    key: WorkloadKey
    token: int


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Read from the hub, not from a cache, whether the workload is bound, and report it with ``read_back``."""

    key: WorkloadKey
    token: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """Await ``fetch()``, such as the answer of a plugin in a process of its own; it returns what to do next."""

    key: WorkloadKey
    token: int
    fetch: Callable[[], Awaitable[list["ForCaller"]]]


@dataclass(frozen=True, slots=True)
class Bound:
    key: WorkloadKey
    hosts: tuple[HostKey, ...]


@dataclass(frozen=True, slots=True)
class Nominate:
    """A PostFilter plugin can make room on these hosts: carry out its plan. The workload waits for the room."""

    key: WorkloadKey
    hosts: tuple[HostKey, ...]
    plugin: str
    plan: object


@dataclass(frozen=True, slots=True)
class Returned:
    """A commit or a cycle gave the workload back to the queue, because of these rejections or an error."""

    key: WorkloadKey
    rejections: tuple[Rejection, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class BeginBinding:
    """The workload can no longer be rejected: stop tracking events for it."""

    key: WorkloadKey


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Wake workloads that may use what was given back."""

    event: Event


@dataclass(frozen=True, slots=True)
class Activate:
    keys: frozenset[WorkloadKey]


@dataclass(frozen=True, slots=True)
class Reject:
    key: WorkloadKey
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True, slots=True)
class Fail:
    key: WorkloadKey
    error: str


@dataclass(frozen=True, slots=True)
class Release:
    """The attempt was abandoned: try the workload again at once."""

    key: WorkloadKey


@dataclass(frozen=True, slots=True)
class Done:
    """The workload is bound or deleted: it leaves the queue."""

    key: WorkloadKey


ForQueue = BeginBinding | Broadcast | Activate | Reject | Fail | Release | Done
ForCaller = RunPreBind | RunBind | RunPostBind | Cancel | ReadBack | Fetch | Bound | Nominate | Returned
Instruction = ForQueue | ForCaller


def perform(queue: SchedulingQueue, instructions: list[Instruction], *, now: Micros) -> list[ForCaller]:
    """Carry out what concerns the queue; return the rest, and which workloads are in the queue again."""
    rest: list[ForCaller] = []
    for instruction in instructions:
        match instruction:
            case BeginBinding(key):
                queue.bind(key)
            case Broadcast(event):
                queue.on_event(event, now=now)
            case Activate(keys):
                # Sorted, because the order of a set differs between processes, and equal input must give an equal
                # order of cycles.
                queue.activate(sorted(keys), now=now)
            case Reject(key, rejections):
                queue.reject(key, rejections, now=now)
                rest.append(Returned(key, rejections))
            case Fail(key, error):
                queue.fail(key, error, now=now)
                rest.append(Returned(key, error=error))
            case Release(key):
                queue.release(key, now=now)
            case Done(key):
                queue.done(key)
            case _:
                rest.append(instruction)
    return rest
