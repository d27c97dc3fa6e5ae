"""Writes are counted, belong to the object that was seen, and end with the term."""

from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import pytest

from fairway.api.meta import Condition, ObjectMeta
from fairway.controllers.fenced_writer import FencedWriter
from fairway.controllers.leadership import ALONE
from fairway.kube import MANAGED_CLUSTERS, Client, Conflict, Invalid, Lost, Patch, TransportError
from fairway.kube.errors import StatusCause, StatusDetails
from fairway.observe.meters import Meters, values

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


class EndedTerm:
    """A term that is over."""

    def batch(self) -> AbstractAsyncContextManager[None]:
        raise AssertionError("nothing begins in a term that is over")

    def ensure(self) -> None:
        raise Lost("another one leads")


def writes(wire: RecordingClient, meters: Meters | None = None) -> FencedWriter:
    return FencedWriter(cast("Client", wire), meters=meters or Meters(), controller="suite")


async def test_merge_patch_has_the_resource_version() -> None:
    wire = RecordingClient()
    body = {"metadata": {"labels": {"a": "b"}}}
    await writes(wire).patch(MANAGED_CLUSTERS, SEEN, body, leadership=ALONE)
    ((verb, arguments, options),) = wire.calls
    assert (verb, options["kind"], options["field_manager"]) == ("patch", Patch.MERGE, "fairway-suite")
    assert arguments[2] == {"metadata": {"labels": {"a": "b"}, "uid": "u", "resourceVersion": "7"}}


async def test_json_patch_has_the_resource_version() -> None:
    wire = RecordingClient()
    body = [{"op": "remove", "path": "/spec/taints/0"}]
    await writes(wire).patch(MANAGED_CLUSTERS, SEEN, body, leadership=ALONE)
    ((_, arguments, options),) = wire.calls
    assert options["kind"] is Patch.JSON
    assert [each["path"] for each in arguments[2]] == [
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
    with pytest.raises(raised):
        await writes(wire, meters).patch(
            MANAGED_CLUSTERS, SEEN, [{"op": "remove", "path": "/spec/taints/1"}], leadership=ALONE
        )


async def test_condition_writes_and_deletions_have_the_resource_version() -> None:
    wire = RecordingClient()
    made = writes(wire)
    await made.conditions(MANAGED_CLUSTERS, SEEN, [Condition(type="T", status="True")], leadership=ALONE)
    await made.delete(MANAGED_CLUSTERS, SEEN, leadership=ALONE)
    (_, arguments, options), (_, _, deletion) = wire.calls
    assert options["subresource"] == "status"
    assert arguments[2]["metadata"] == {"uid": "u", "resourceVersion": "7"}
    assert (deletion["uid"], deletion["resource_version"]) == ("u", "7")


async def test_no_write_is_sent_after_the_term() -> None:
    wire = RecordingClient()
    made = writes(wire)
    for attempt in (
        made.create(MANAGED_CLUSTERS, {}, leadership=EndedTerm()),
        made.patch(MANAGED_CLUSTERS, SEEN, {}, leadership=EndedTerm()),
        made.conditions(MANAGED_CLUSTERS, SEEN, [], leadership=EndedTerm()),
        made.apply(MANAGED_CLUSTERS, {"metadata": {"name": "c"}}, leadership=EndedTerm()),
        made.delete(MANAGED_CLUSTERS, SEEN, leadership=EndedTerm()),
    ):
        with pytest.raises(Lost):
            await attempt
    assert wire.calls == []


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
    made = writes(RecordingClient(failure), meters)
    with pytest.raises(type(failure)):
        await made.patch(MANAGED_CLUSTERS, SEEN, {}, leadership=ALONE)
    labels = 'controller="suite",{}resource="managedclusters",verb="patch"'
    shown = values(meters.expose())
    assert shown[f"fairway_writes_total{{{labels.format('')}}}"] == 1
    failed = {name: count for name, count in shown.items() if name.startswith("fairway_write_errors_total")}
    ((name, count),) = failed.items()
    assert (f'reason="{reason}"' in name, count) == (True, 1)
