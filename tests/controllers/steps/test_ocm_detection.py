"""Detection of OCM's placement controller by its Lease."""

import logging
from datetime import UTC, datetime, timedelta
from typing import cast

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fairway.controllers.placement import ocm_detection
from kubewire.api.lease import Lease, LeaseSpec, format_micro_time
from kubewire.client import Client, Forbidden, KubeError, NotFound, ServerError, TransportError
from rigs.fake_hub import refused

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Hub:
    """Has this lease, or answers like this."""

    def __init__(self, answer: Lease | KubeError) -> None:
        self._answer = answer
        self.asked: list[tuple[str, str]] = []

    async def get(self, _resource: object, name: str, *, namespace: str) -> Lease:
        self.asked.append((namespace, name))
        if isinstance(self._answer, KubeError):
            raise self._answer
        return self._answer


def lease(*, holder: str = "somebody", ago: float = 0, lasts: int = 15, renewed: bool = True) -> Lease:
    stamp = format_micro_time(NOW - timedelta(seconds=ago)) if renewed else ""
    return Lease(spec=LeaseSpec(holderIdentity=holder, renewTime=stamp, leaseDurationSeconds=lasts))


async def found(hub: Hub, *, namespace: str = ocm_detection.NAMESPACE) -> ocm_detection.OcmLease | None:
    return await ocm_detection.find(cast("Client", hub), now=NOW, namespace=namespace)


async def test_renewed_ocm_lease_is_detected() -> None:
    hub = Hub(lease(ago=3))
    assert await found(hub) == ocm_detection.OcmLease(
        holder="somebody", namespace="open-cluster-management-hub"
    )
    assert hub.asked == [("open-cluster-management-hub", "placement-lock")]


async def test_ocm_lease_is_found_in_another_namespace() -> None:
    hub = Hub(lease())
    assert await found(hub, namespace="elsewhere") == ocm_detection.OcmLease(
        holder="somebody", namespace="elsewhere"
    )


@pytest.mark.parametrize(
    "answer",
    [refused(NotFound, 404), lease(ago=16), lease(holder=""), lease(renewed=False), lease(ago=138, lasts=0)],
)
async def test_missing_or_expired_ocm_lease_is_ignored(answer: Lease | KubeError) -> None:
    assert await found(Hub(answer)) is None


@given(ago=st.integers(-1000, 1000), lasts=st.integers(1, 300))
async def test_ocm_counts_as_running_while_its_lease_lasts(ago: int, lasts: int) -> None:
    assert (await found(Hub(lease(ago=ago, lasts=lasts))) is not None) == (ago < lasts)


async def test_ocm_lease_in_the_far_future_is_ignored() -> None:
    spec = LeaseSpec(
        holderIdentity="somebody", renewTime="9999-12-31T23:59:59.999999Z", leaseDurationSeconds=15
    )
    assert await found(Hub(Lease(spec=spec))) is None


@pytest.mark.parametrize(
    "error", [refused(Forbidden, 403), refused(ServerError, 500), TransportError("no hub there")]
)
async def test_failed_ocm_detection_is_logged(error: KubeError, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert await found(Hub(error)) is None
    assert "make sure that only one of the two writes" in caplog.text


def test_ocm_refusal_names_holder_and_remedy() -> None:
    text = str(ocm_detection.OcmControllerRunning(ocm_detection.OcmLease(holder="pod-1", namespace="hub-ns")))
    assert text == ocm_detection.RUNS.format(holder="pod-1", namespace="hub-ns", name="placement-lock")
    for word in ("pod-1", "hub-ns/placement-lock", "--shadow", "--beside-ocm"):
        assert word in text
