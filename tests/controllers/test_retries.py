"""Retries of many keys, in virtual time: a hub that refused everything for a moment is caught up with soon."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import ClassVar, cast

import pytest

from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE
from fairway.controllers.runtime.reconciler import Key, Reconciler
from fairway.observe.meters import Meters
from kubewire.client import AlreadyExists, Client, Conflict, Forbidden, KubeError, NotFound, TransportError
from kubewire.client.errors import StatusCause, StatusDetails
from kubewire.client.log_throttle import RACES

pytestmark = pytest.mark.looptime

MANY = 5000
AWAY_SECONDS = 5.0
SOON_SECONDS = 60.0


class Insistent(Reconciler[Key]):
    """Its hub is unreachable at first."""

    name: ClassVar[str] = "insistent"

    def __init__(self) -> None:
        super().__init__(cast("Client", None), meters=Meters(), workers=32)
        self.left = {("", str(number)) for number in range(MANY)}
        self.refused = 0

    def watch(self, informers: InformerFactory) -> None: ...

    def keys(self) -> Iterable[Key]:
        return tuple(self.left)

    async def reconcile(self, key: Key) -> None:
        if asyncio.get_running_loop().time() < AWAY_SECONDS:
            self.refused += 1
            raise TransportError("no hub there")
        self.left.discard(key)


class Racing(Insistent):
    """Whose writes always fail in the same way."""

    def __init__(self, error: KubeError) -> None:
        super().__init__()
        self.left = {("ns1", "p")}
        self.error = error

    async def reconcile(self, key: Key) -> None:
        self.refused += 1
        raise self.error


TERMINATING = StatusDetails(name="p", causes=(StatusCause(reason="NamespaceTerminating"),))


@pytest.mark.parametrize(
    ("error", "quiet"),
    [
        (Conflict("changed"), RACES),
        (AlreadyExists("there"), RACES),
        (Forbidden("namespace ns1 is being terminated", details=TERMINATING), RACES),
        (NotFound("gone", details=StatusDetails(name="p")), RACES),
        (NotFound("the hub does not serve this kind"), 0),
        (Forbidden("not allowed"), 0),
        (TransportError("no hub there"), 0),
    ],
    ids=lambda value: str(value).replace(" ", "-"),
)
async def test_only_persistent_conflicts_are_warnings(
    error: KubeError, quiet: int, caplog: pytest.LogCaptureFixture
) -> None:
    controller = Racing(error)
    with caplog.at_level(logging.DEBUG, logger="fairway.controllers"):
        work = asyncio.create_task(controller.run(ALONE))
        async with asyncio.timeout(3600):
            while controller.refused <= RACES + 2:
                await asyncio.sleep(0.25)
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
    levels = [record.levelno for record in caplog.records if record.name.endswith("reconciler")]
    assert levels[:quiet] == [logging.DEBUG] * quiet
    assert set(levels[quiet:]) == {logging.WARNING}


async def test_all_objects_are_reconciled_soon_after_a_short_outage() -> None:
    controller = Insistent()
    work = asyncio.create_task(controller.run(ALONE))
    async with asyncio.timeout(3600):
        while controller.left:
            await asyncio.sleep(0.25)
    assert asyncio.get_running_loop().time() < SOON_SECONDS
    # In the meantime it did not storm the hub either.
    assert controller.refused < 2 * MANY
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
