"""Writes are counted, belong to the object that was read, and end with the term of their task."""

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import pytest

from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.runtime.leadership import ALONE, OUTSIDE, leading
from fairway.controllers.runtime.writer import Writer
from fairway.observe.meters import Meters
from kubewire.api.meta import Condition, ObjectMeta
from kubewire.client import Client, Conflict, Invalid, Lost, Patch, TransportError
from kubewire.client.errors import StatusCause, StatusDetails
from metric_values import values

SEEN = ObjectMeta(name="c", uid="u", resourceVersion="7")


class RecordingClient:
    """A client that records requests and can fail."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, verb: str) -> Any:
        async def call(*arguments: Any, **options: Any) -> None:
            self.calls.append((verb, arguments, options))
            if self.failure is not None:
                raise self.failure

        return call


class Term:
    """A term that can end."""

    def __init__(self) -> None:
        self.is_over = False

    def batch(self) -> AbstractAsyncContextManager[None]:
        raise AssertionError("writes of these tests are no batches")

    def ensure(self) -> None:
        if self.is_over:
            raise Lost("another process leads")


def writer_of(wire: RecordingClient, meters: Meters | None = None) -> Writer:
    return Writer(cast("Client", wire), meters=meters or Meters(), controller="suite")


async def test_merge_patch_has_the_resource_version() -> None:
    wire = RecordingClient()
    body = {"metadata": {"labels": {"a": "b"}}}
    with leading(ALONE):
        await writer_of(wire).patch(MANAGED_CLUSTERS, SEEN, body)
    ((verb, arguments, options),) = wire.calls
    assert (verb, options["kind"], options["field_manager"]) == ("patch", Patch.MERGE, "fairway-suite")
    assert arguments[2] == {"metadata": {"labels": {"a": "b"}, "uid": "u", "resourceVersion": "7"}}


async def test_json_patch_has_the_resource_version() -> None:
    wire = RecordingClient()
    body = [{"op": "remove", "path": "/spec/taints/0"}]
    with leading(ALONE):
        await writer_of(wire).patch(MANAGED_CLUSTERS, SEEN, body)
    ((_, arguments, options),) = wire.calls
    assert options["kind"] is Patch.JSON
    assert [operation["path"] for operation in arguments[2]] == [
        "/metadata/uid",
        "/metadata/resourceVersion",
        "/spec/taints/0",
    ]


@pytest.mark.parametrize(
    ("details", "raised"), [(StatusDetails(), Conflict), (StatusDetails(causes=(StatusCause(),)), Invalid)]
)
async def test_json_patch_that_does_not_fit_the_object_is_a_conflict(
    details: StatusDetails, raised: type[Exception]
) -> None:
    meters = Meters()
    wire = RecordingClient(Invalid("error in our request", code=422, reason="Invalid", details=details))
    with leading(ALONE), pytest.raises(raised):
        await writer_of(wire, meters).patch(
            MANAGED_CLUSTERS, SEEN, [{"op": "remove", "path": "/spec/taints/1"}]
        )


async def test_condition_writes_and_deletions_have_the_resource_version() -> None:
    wire = RecordingClient()
    writer = writer_of(wire)
    with leading(ALONE):
        await writer.conditions(MANAGED_CLUSTERS, SEEN, [Condition(type="T", status="True")])
        await writer.delete(MANAGED_CLUSTERS, SEEN)
    (_, arguments, options), (_, _, deletion) = wire.calls
    assert options["subresource"] == "status"
    assert arguments[2]["metadata"] == {"uid": "u", "resourceVersion": "7"}
    assert (deletion["uid"], deletion["resource_version"]) == ("u", "7")


def each_write(writer: Writer) -> list[Coroutine[Any, Any, Any]]:
    return [
        writer.create(MANAGED_CLUSTERS, {}),
        writer.patch(MANAGED_CLUSTERS, SEEN, {}),
        writer.patch_any_version(MANAGED_CLUSTERS, "c", {}, kind=Patch.MERGE),
        writer.conditions(MANAGED_CLUSTERS, SEEN, []),
        writer.apply(MANAGED_CLUSTERS, {"metadata": {"name": "c"}}),
        writer.delete(MANAGED_CLUSTERS, SEEN),
    ]


async def test_no_write_is_sent_after_the_term() -> None:
    wire, meters, term = RecordingClient(), Meters(), Term()
    term.is_over = True
    with leading(term):
        for write in each_write(writer_of(wire, meters)):
            with pytest.raises(Lost, match="another process leads"):
                await write
    assert wire.calls == []
    assert not [name for name in values(meters.expose()) if name.startswith("fairway_writes_total")]


async def test_no_write_is_sent_outside_of_a_term() -> None:
    wire = RecordingClient()
    with leading(ALONE):
        pass
    for write in each_write(writer_of(wire)):
        with pytest.raises(Lost, match=OUTSIDE):
            await write
    assert wire.calls == []


async def test_task_of_an_old_term_does_not_write_in_the_next() -> None:
    wire, old, new = RecordingClient(), Term(), Term()
    writer, renewed = writer_of(wire), asyncio.Event()

    async def outlive() -> None:
        await renewed.wait()
        await writer.patch(MANAGED_CLUSTERS, SEEN, {"metadata": {"labels": {"by": "old"}}})

    with leading(old):
        leftover = asyncio.create_task(outlive())
    old.is_over = True
    with leading(new):
        renewed.set()
        await writer.patch(MANAGED_CLUSTERS, SEEN, {"metadata": {"labels": {"by": "new"}}})
        with pytest.raises(Lost):
            await leftover
    assert [arguments[2]["metadata"]["labels"] for _, arguments, _ in wire.calls] == [{"by": "new"}]


async def test_subresources_are_counted_apart_on_request() -> None:
    meters = Meters()
    writer = Writer(
        cast("Client", RecordingClient()), meters=meters, controller="suite", count_subresources=True
    )
    with leading(ALONE):
        await writer.patch(MANAGED_CLUSTERS, SEEN, {}, subresource="status")
        await writer_of(RecordingClient(), meters).patch(MANAGED_CLUSTERS, SEEN, {}, subresource="status")
    shown = values(meters.expose())
    labels = 'controller="suite",resource="managedclusters{}",verb="patch"'
    assert [shown[f"fairway_writes_total{{{labels.format(name)}}}"] for name in ("/status", "")] == [1, 1]


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Conflict("changed", reason="Conflict"), "Conflict"),
        (Conflict("changed"), "Conflict"),
        (TransportError("gone"), "TransportError"),
    ],
)
async def test_failed_writes_are_counted_by_reason(failure: Exception, reason: str) -> None:
    meters = Meters()
    writer = writer_of(RecordingClient(failure), meters)
    with leading(ALONE), pytest.raises(type(failure)):
        await writer.patch(MANAGED_CLUSTERS, SEEN, {})
    labels = 'controller="suite",{}resource="managedclusters",verb="patch"'
    shown = values(meters.expose())
    assert shown[f"fairway_writes_total{{{labels.format('')}}}"] == 1
    failed = {name: count for name, count in shown.items() if name.startswith("fairway_write_errors_total")}
    ((name, count),) = failed.items()
    assert (f'reason="{reason}"' in name, count) == (True, 1)
