"""Base classes of controllers: a queue of keys, workers, and retries.

Informers run whether or not this process leads, so that a new leader has a complete view. Only a leader works on its
queue, and it starts with all keys, because the hub may have changed since its last term.
"""

import abc
import asyncio
import logging
from collections.abc import Iterable
from typing import ClassVar, Final, Protocol

from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.leadership import Leadership
from fairway.kube import SYSTEM_CLOCK, Backoff, Client, Clock, KubeError, TokenBucket, WorkQueue
from fairway.kube.fence import Lost, Unconfirmed
from fairway.kube.log_throttle import retry_level
from fairway.kube.queue_metrics import QueueMetrics
from fairway.observe.meters import Meters

log: Final = logging.getLogger(__name__)

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-wide object is empty."""

BACKOFF: Final = Backoff(base=0.005, cap=60.0)
RETRIES_BURST: Final = 1000
RETRIES_EVERY: Final = 0.01
"""Seconds between retries of different keys, once the burst is used up. client-go's default of ten per second would
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
        """Subscribe to informers. Called once, before they run."""

    @abc.abstractmethod
    async def run(self, leadership: Leadership) -> None:
        """Run until cancelled. Raises Lost when the term ends."""

    async def quiet(self) -> None:
        """Wait until the queue is empty and no worker is busy."""
        await self.queue.join()


class Reconciler(Controller):
    queue: WorkQueue[Key]

    def __init__(
        self, client: Client, *, meters: Meters, workers: int = 4, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.client = client
        self.meters = meters
        self.clock = clock
        self.queue = WorkQueue(
            backoff=BACKOFF,
            bucket=TokenBucket(burst=RETRIES_BURST, every=RETRIES_EVERY),
            observer=QueueMetrics(meters.queue(self.name)),
        )
        self._workers = workers

    @abc.abstractmethod
    def keys(self) -> Iterable[Key]:
        """Return all keys."""

    @abc.abstractmethod
    async def reconcile(self, key: Key, leadership: Leadership, /) -> None:
        """Reconcile one key. Errors are retried."""

    async def run(self, leadership: Leadership) -> None:
        for key in self.keys():
            self.queue.add(key)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work(leadership))
        except* Lost as lost:
            raise Lost(str(lost.exceptions[0])) from None

    async def _work(self, leadership: Leadership) -> None:
        while True:
            async with self.queue.take() as key:
                try:
                    await self.reconcile(key, leadership)
                except Lost:
                    self.queue.add(key)
                    raise
                except (KubeError, Unconfirmed) as error:
                    level = retry_level(error, retries=self.queue.retries(key))
                    log.log(level, FAILED, self.name, "/".join(part for part in key if part), error)
                    self.queue.add_rate_limited(key)
                except Exception:
                    log.exception(BROKE, self.name, "/".join(part for part in key if part))
                    self.queue.add_rate_limited(key)
                else:
                    self.queue.forget(key)
