"""Base classes of controllers: a queue of keys, workers, and retries.

Keys may have owners (``Reconciler.owner_of``), which take turns: what one of them queues does not delay the others.

Informers run whether or not this process leads, so that a new leader has a complete view. Only a leader works on its
queue, and it starts with all keys, because the hub may have changed since its last term.
"""

import abc
import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import Leadership, leading
from fairway.controllers.runtime.slicing import SLICE_SECONDS, in_slices
from fairway.hosts.steps import Steps, strides
from fairway.observe.meters import Meters
from kubewire.client import SYSTEM_CLOCK, Backoff, Client, Clock, KubeError, Resource, TokenBucket, WorkQueue
from kubewire.client.fence import Lost, TermGroup, Unconfirmed
from kubewire.client.log_throttle import retry_level

log: Final = logging.getLogger(__name__)

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-wide object is empty."""
K = TypeVar("K", bound=Hashable)
"""Key, or one type for each kind of key: str() is what log lines show of it."""

BACKOFF: Final = Backoff(base=0.005, cap=60.0)
RETRIES_BURST: Final = 1000
RETRIES_EVERY: Final = 0.01
"""Seconds between retries of different objects, once the burst is used up. client-go's default of ten per second would
keep ten thousand placements waiting for a quarter of an hour after a hub refused them once."""

FAILED: Final = "reconcile failed, retrying  controller=%s key=%s error=%s"
BROKE: Final = "unexpected error, retrying  controller=%s key=%s"


class Outdated(KubeError):
    """The hub has other objects than those the plan was made from; a watch will deliver them."""

    @property
    def is_race(self) -> bool:
        return True


class Queue(Protocol):
    @property
    def busy(self) -> bool:
        """Whether anything is queued or being worked on."""

    async def join(self) -> None:
        """Wait until nothing is, except running delays."""


class Controller(abc.ABC):
    """What the manager runs."""

    name: ClassVar[str]
    queue: Queue

    @abc.abstractmethod
    def watch(self, informers: InformerFactory) -> None:
        """Subscribe to informers. Called once."""

    def watch_late(self, informers: InformerFactory, kind: Resource[Any]) -> None:
        """Subscribe to an optional kind that the hub did not serve when the controller was created."""
        raise NotImplementedError

    async def run(self, leadership: Leadership) -> None:
        """Run until cancelled. Raises Lost when the term ends."""
        with leading(leadership):
            await self.work()

    @abc.abstractmethod
    async def work(self) -> None:
        """Work in one leadership term, until cancelled. Raises Lost when it ends."""

    @property
    def busy(self) -> bool:
        """Whether anything is queued or being worked on, except delays."""
        return self.queue.busy

    async def quiet(self) -> None:
        """Wait until the queue is empty and no worker is busy."""
        await self.queue.join()


class Reconciler(Controller, Generic[K]):
    queue: WorkQueue[K]

    def __init__(
        self, client: Client, *, meters: Meters, workers: int = 4, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.client = client
        self.meters = meters
        self.clock = clock
        self.queue = WorkQueue(
            backoff=BACKOFF,
            bucket=TokenBucket(burst=RETRIES_BURST, every=RETRIES_EVERY),
            observer=meters.queue(self.name),
            owner_of=self.owner_of,
        )
        self._workers = workers

    @abc.abstractmethod
    def keys(self) -> Iterable[K]:
        """Return all keys."""

    def owner_of(self, _key: K, /) -> Hashable:
        """Return the owner of a key; owners take turns in the queue."""
        return None

    @abc.abstractmethod
    async def reconcile(self, key: K, /) -> None:
        """Reconcile one key. Errors are retried."""

    async def work(self) -> None:
        await in_slices(self._queue_all(), clock=self.clock)
        async with TermGroup() as group:
            for _ in range(self._workers):
                group.create_task(work_on(self.queue, self.reconcile, controller=self.name, clock=self.clock))

    def _queue_all(self) -> Steps[None]:
        # A list, because informers go on between two steps; a key that was deleted by then does no harm.
        for keys in strides(list(self.keys())):
            for key in keys:
                self.queue.add(key)
            yield


async def work_on(
    queue: WorkQueue[K],
    reconcile: Callable[[K], Awaitable[None]],
    *,
    controller: str,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Reconcile keys of a queue until cancelled, and retry those that fail. Raises Lost when the term ends."""
    began = clock.monotonic()
    while True:
        # A key without anything to do never waits, and after a start, those of a whole fleet are such keys.
        if clock.monotonic() - began >= SLICE_SECONDS:
            await asyncio.sleep(0)
            began = clock.monotonic()
        async with queue.take() as key:
            try:
                await reconcile(key)
            except Lost:
                # For the next term of this process, whose ``keys`` need not contain that of a deleted object.
                queue.add(key)
                raise
            except Exception as error:
                # A defect in the handling of one object must not stop that of all others.
                log_failure(error, controller=controller, key=_text_of(key), retries=queue.retries(key))
                queue.add_rate_limited(key)
            else:
                # Only after a success: the back-off of a key counts its failures in a row, whatever queued it.
                queue.forget(key)


def log_failure(error: Exception, *, controller: str, key: str, retries: int) -> None:
    """Log why a key is retried. Errors of the hub are no bugs, and have no traceback."""
    if isinstance(error, KubeError | Unconfirmed):
        # Conflicts and deletions are usual races; only what repeats is a warning.
        log.log(retry_level(error, retries=retries), FAILED, controller, key, error)
    else:
        log.error(BROKE, controller, key, exc_info=error)


def _text_of(key: Hashable) -> str:
    return "/".join(part for part in key if part) if isinstance(key, tuple) else str(key)
