"""When a request is repeated, and when it is not."""

import asyncio
import logging
from pathlib import Path

import pytest
from client.conftest import QUICK

from fairway.api.resources import MANAGED_CLUSTERS
from kubewire.client import transport
from kubewire.client.clock import Backoff
from kubewire.client.connection import Connection
from kubewire.client.credentials import StoredCredentials
from kubewire.client.errors import (
    ApiError,
    Conflict,
    DeadlineExceeded,
    KubeError,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
    UntrustedError,
)
from kubewire.client.request_options import Patch
from kubewire.client.rest import Client
from kubewire.client.transport import Retry
from rigs.fake_server import PATH, FakeServer

BODY = {"metadata": {"name": "a"}}
LATER = {"Retry-After": "0"}


async def create(client: Client) -> None:
    await client.create(MANAGED_CLUSTERS, BODY)


class TestRetryAfter:
    @pytest.mark.parametrize("code", [429, 500, 503])
    async def test_request_with_retry_after_is_repeated(
        self, hub: FakeServer, client: Client, code: int
    ) -> None:
        for _ in range(3):
            hub.fault("write", code=code, headers=LATER)
        await create(client)
        assert len(hub.requests) == 4

    async def test_request_is_repeated_after_a_429_without_retry_after(
        self, hub: FakeServer, client: Client
    ) -> None:
        hub.fault("write", code=429)
        await create(client)
        assert len(hub.requests) == 2

    async def test_number_of_retries_is_limited(self, hub: FakeServer, client: Client) -> None:
        for _ in range(20):
            hub.fault("write", code=429, headers=LATER)
        with pytest.raises(TooManyRequests):
            await create(client)
        assert len(hub.requests) == QUICK.asked + 1

    async def test_no_retry_passes_the_deadline(self, hub: FakeServer) -> None:
        retry = Retry(longest=600)
        async with Client(Connection(server=hub.url), timeout=120, retry=retry) as client:
            hub.fault("write", code=429, headers={"Retry-After": "121"})
            with pytest.raises(TooManyRequests) as caught:
                await create(client)
        assert caught.value.retry_after == 121
        assert len(hub.requests) == 1


class TestServerError:
    async def test_read_is_repeated_after_a_server_error(self, hub: FakeServer, client: Client) -> None:
        for code in (500, 502, 504):
            hub.fault(code=code)
        assert (await client.list(MANAGED_CLUSTERS)).items == ()
        assert len(hub.requests) == 4

    async def test_read_is_repeated_a_few_times(self, hub: FakeServer, client: Client) -> None:
        for _ in range(9):
            hub.fault(code=503)
        with pytest.raises(ServerError):
            await client.list(MANAGED_CLUSTERS)
        assert len(hub.requests) == QUICK.failed + 1

    async def test_create_is_not_repeated_after_a_server_error(self, hub: FakeServer, client: Client) -> None:
        hub.fault(code=500)
        with pytest.raises(ServerError):
            await create(client)
        assert len(hub.requests) == 1

    @pytest.mark.parametrize("code", [400, 403, 404, 405, 409, 410, 413, 415, 422])
    async def test_client_error_is_not_retried(self, hub: FakeServer, client: Client, code: int) -> None:
        hub.fault(code=code)
        with pytest.raises(ApiError):
            await client.list(MANAGED_CLUSTERS)
        assert len(hub.requests) == 1

    async def test_future_resource_version_is_not_waited_for(self, hub: FakeServer, client: Client) -> None:
        hub.fault(code=504, causes=("ResourceVersionTooLarge",), headers={"Retry-After": "1"})
        with pytest.raises(ServerError):
            await client.list(MANAGED_CLUSTERS)
        assert len(hub.requests) == 1


class TestNoResponse:
    async def test_read_without_response_is_repeated(self, hub: FakeServer, client: Client) -> None:
        hub.put("a")
        hub.fault(dropped=True)
        hub.fault(keep=30)
        assert len((await client.list(MANAGED_CLUSTERS)).items) == 1
        assert len(hub.requests) == 3

    async def test_create_without_response_is_not_repeated(self, hub: FakeServer, client: Client) -> None:
        """The object exists although no response arrived; a second attempt would get AlreadyExists."""
        hub.fault("write", lost=True)
        with pytest.raises(TransportError, match="before the response was complete") as caught:
            await create(client)
        assert caught.value.sent
        assert list(hub.versions()) == ["a"]
        assert len(hub.requests) == 1

    async def test_updates_deletions_and_json_patches_without_response_are_not_repeated(
        self, hub: FakeServer, client: Client
    ) -> None:
        hub.put("a")
        for attempt in (
            client.update(MANAGED_CLUSTERS, "a", BODY),
            client.patch(MANAGED_CLUSTERS, "a", [], kind=Patch.JSON),
            client.patch(MANAGED_CLUSTERS, "a", {}, kind=Patch.STRATEGIC),
            client.delete(MANAGED_CLUSTERS, "a"),
        ):
            hub.requests.clear()
            hub.fault("write", lost=True)
            with pytest.raises(TransportError):
                await attempt
            assert len(hub.requests) == 1

    @pytest.mark.parametrize("kind", [Patch.APPLY, Patch.MERGE])
    async def test_idempotent_request_without_response_is_repeated(
        self, hub: FakeServer, client: Client, kind: Patch
    ) -> None:
        hub.fault("write", lost=True)
        await client.patch(MANAGED_CLUSTERS, "a", {}, kind=kind)
        assert len(hub.requests) == 2

    async def test_caller_can_mark_a_request_idempotent(self, hub: FakeServer, client: Client) -> None:
        hub.fault("write", dropped=True)
        await client.request("POST", PATH, body=BODY, repeatable=True)
        assert len(hub.requests) == 2

    async def test_request_on_a_broken_idle_connection_is_repeated(
        self, hub: FakeServer, client: Client
    ) -> None:
        await client.list(MANAGED_CLUSTERS)
        await hub.restart()
        await client.list(MANAGED_CLUSTERS)

    async def test_unsent_request_is_repeated(self) -> None:
        hub = FakeServer()
        await hub.start()
        await hub.stop()

        class Restarting(Retry):
            def wait(self, error: KubeError, *, repeatable: bool, failures: int) -> float | None:
                waits.append(super().wait(error, repeatable=repeatable, failures=failures))
                return waits[-1]

        waits: list[float | None] = []
        async with Client(Connection(server=hub.url), retry=Restarting(backoff=QUICK.backoff)) as client:
            with pytest.raises(TransportError, match="cannot reach"):
                await create(client)
        assert [pause is not None for pause in waits] == [True, True, False]


class TestDeadlines:
    async def test_missing_response_times_out(self, hub: FakeServer, client: Client) -> None:
        held = asyncio.Event()
        hub.fault(held=held)
        with pytest.raises(DeadlineExceeded, match=f"GET {PATH}: no response within 0.05 s"):
            await client.list(MANAGED_CLUSTERS, timeout=0.05)
        held.set()

    async def test_late_response_times_out(self, hub: FakeServer, client: Client) -> None:
        held = asyncio.Event()
        hub.fault(held=held)
        hub.put("a")
        asked = asyncio.create_task(client.list(MANAGED_CLUSTERS))
        while not hub.requests:
            await asyncio.sleep(0)
        held.set()
        assert len((await asked).items) == 1

    async def test_concurrent_requests_are_limited_and_watches_are_not(
        self, hub: FakeServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(transport, "CONCURRENCY", 2)
        held = asyncio.Event()
        hub.fault(held=held)
        hub.fault(held=held)
        async with Client(Connection(server=hub.url)) as client:
            asked = [asyncio.create_task(client.list(MANAGED_CLUSTERS)) for _ in range(5)]
            while len(hub.requests) < 2:
                await asyncio.sleep(0)
            async with client.stream(MANAGED_CLUSTERS):
                assert len(hub.requests) == 3, "a watch does not wait for requests"
            assert len(hub.asked("list")) == 2
            held.set()
            await asyncio.gather(*asked)
        assert len(hub.asked("list")) == 5


class TestRejectedCredentials:
    async def test_rejected_credentials_are_renewed_once(self, hub: FakeServer, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("old", encoding="ascii")
        hub.tokens = {"renewed"}

        class Rotating(StoredCredentials):
            async def renew(self, rejected: object) -> bool:
                # Of another length: it may have the timestamp of the first one.
                token.write_text("renewed", encoding="ascii")
                return True

        connection = Connection(server=hub.url, credentials=Rotating(token_file=str(token)))
        async with Client(connection, retry=QUICK) as client:
            await create(client)
            assert len(hub.requests) == 2
            hub.tokens = {"newer"}
            with pytest.raises(Unauthorized):
                await client.list(MANAGED_CLUSTERS)
        assert len(hub.requests) == 4

    async def test_unchanged_credentials_are_not_retried(self, hub: FakeServer) -> None:
        hub.tokens = set()
        connection = Connection(server=hub.url, credentials=StoredCredentials(token="secret"))
        async with Client(connection, retry=QUICK) as client:
            with pytest.raises(Unauthorized) as caught:
                await client.list(MANAGED_CLUSTERS)
        assert len(hub.requests) == 1
        assert "secret" not in str(caught.value)

    async def test_watch_renews_rejected_credentials(self, hub: FakeServer, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("new", encoding="ascii")
        hub.tokens = {"new"}
        hub.fault("watch", code=401)

        class Renewing(StoredCredentials):
            async def renew(self, rejected: object) -> bool:
                return True

        connection = Connection(server=hub.url, credentials=Renewing(token_file=str(token)))
        async with Client(connection, retry=QUICK) as client, client.stream(MANAGED_CLUSTERS):
            assert len(hub.requests) == 2


class TestRetryDelay:
    """Without a hub: seconds to wait."""

    retry = Retry(backoff=Backoff(base=1, cap=5), longest=10)

    def wait(self, error: KubeError, *, repeatable: bool = True, failures: int = 0) -> float | None:
        return self.retry.wait(error, repeatable=repeatable, failures=failures)

    def test_retry_delay_honours_retry_after(self) -> None:
        waited = self.wait(TooManyRequests("", retry_after=4))
        assert waited is not None
        assert 4 <= waited <= 4.4

    def test_retry_delay_is_limited(self) -> None:
        waited = self.wait(ServerError("", retry_after=3600))
        assert waited is not None
        assert 10 <= waited <= 11

    def test_retry_delay_grows(self) -> None:
        for failures, longest in enumerate((1, 2, 4)):
            waited = self.wait(ServerError(""), failures=failures)
            assert waited is not None
            assert longest / 2 <= waited <= longest

    @pytest.mark.parametrize(
        "error",
        [Conflict("", retry_after=1), UntrustedError("", sent=False), DeadlineExceeded(""), KubeError()],
    )
    def test_final_errors_are_never_retried(self, error: KubeError) -> None:
        assert self.wait(error) is None


async def test_retries_are_logged_at_debug_level(
    hub: FakeServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    hub.fault(code=503)
    with caplog.at_level(logging.INFO):
        await client.list(MANAGED_CLUSTERS)
    assert caplog.records == []
