"""A clock that differs from the hub's is reported."""

import asyncio
import logging
import re
from datetime import UTC, datetime, timedelta

import pytest

from fairway.providers import Direct, Settings, hub_clock, provider, running
from fairway.providers.hub_clock import AGAIN_SECONDS, EVERY_SECONDS, HubClock
from kubewire.client import SYSTEM_CLOCK, Client, Connection
from providers.hub_fleet import HubFleet
from rigs.processes import POLL


class Wrong:
    """By so much."""

    def __init__(self, by: timedelta) -> None:
        self._by = by

    def wall(self) -> datetime:
        return datetime.now(UTC) + self._by

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()


@pytest.mark.parametrize(
    ("minutes", "words"), [(-10, r"is (\d+) s behind the hub's"), (10, r"is (\d+) s ahead of the hub's")]
)
async def test_hub_clock_difference_is_logged_once(
    client: Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    minutes: int,
    words: str,
) -> None:
    monkeypatch.setattr(hub_clock, "ANSWER_SECONDS", 120.0)
    hub = HubClock(client, Wrong(timedelta(minutes=minutes)))
    began = SYSTEM_CLOCK.monotonic()
    for _ in range(3):
        assert await hub.compare() == EVERY_SECONDS
    # The Date header has whole seconds, and requests take time.
    slack = 1.5 + SYSTEM_CLOCK.monotonic() - began
    assert abs(hub.ahead + timedelta(minutes=minutes)) < timedelta(seconds=slack)
    (record,) = [record for record in caplog.records if record.name == hub_clock.log.name]
    match = re.search(words, record.getMessage())
    assert match is not None
    assert abs(int(match[1]) - 600) < slack


@pytest.mark.embedded
async def test_small_hub_clock_difference_is_ignored(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    hub = HubClock(client, Wrong(timedelta(seconds=20)))
    await hub.compare()
    assert hub.ahead == timedelta(0)
    assert [record for record in caplog.records if record.name == hub_clock.log.name] == []


async def test_hub_without_date_is_asked_again() -> None:
    async with Client(Connection(server="http://127.0.0.1:9")) as nowhere:
        hub = HubClock(nowhere, SYSTEM_CLOCK)
        assert await hub.compare() == AGAIN_SECONDS
        assert hub.ahead == timedelta(0)


@pytest.mark.embedded
async def test_scores_expired_by_hub_clock_are_not_ready(
    fleet: HubFleet, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = await fleet.namespace()
    made = provider(scores={"free": Direct()}, name="late")(lambda: 5)
    settings = Settings(cluster=cluster)
    with caplog.at_level(logging.WARNING):
        async with running(
            [made], hub=client, settings=settings, clock=Wrong(timedelta(minutes=-10))
        ) as runner:
            await fleet.scored(cluster, "late-score", free=5)
            while not any("expired at" in reason for reason in runner.unready()):
                await asyncio.sleep(POLL)
    assert "behind the hub's" in caplog.text
