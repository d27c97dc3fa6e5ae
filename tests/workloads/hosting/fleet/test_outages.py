"""When a hosting cluster counts as lost."""

from typing import Any

import msgspec
import pytest

from fairway.api.cluster import CONDITION_AVAILABLE, ManagedCluster
from fairway.hosts.instant import SECOND
from fairway.workloads.hosting.fleet.outages import outage_of
from workloads.hosting.hosts import NOW, host

AFTER = 600 * SECOND
AN_HOUR_AGO, A_MINUTE_AGO = "2026-03-02T11:00:00Z", "2026-03-02T11:59:00Z"
UNREACHABLE = {"key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect"}


def cluster(
    *, status: str = "True", since: str | None = AN_HOUR_AGO, deleted: str = "", **spec: Any
) -> ManagedCluster:
    document = msgspec.to_builtins(host("h1", **spec))
    document["status"]["conditions"] = [
        {
            "type": CONDITION_AVAILABLE,
            "status": status,
            "reason": "Lease",
            "message": "",
            "lastTransitionTime": since,
        }
    ]
    if deleted:
        document["metadata"]["deletionTimestamp"] = deleted
    return msgspec.convert(document, ManagedCluster)


@pytest.mark.parametrize(
    ("cluster", "lost", "abandoned"),
    [
        (cluster(status="Unknown"), True, True),
        (cluster(status="False"), True, True),
        (cluster(status="Unknown", since=A_MINUTE_AGO), False, False),
        (cluster(status="Unknown", since=None), False, False),
        (
            cluster(status="Unknown", since=None, taints=[{**UNREACHABLE, "timeAdded": AN_HOUR_AGO}]),
            True,
            True,
        ),
        (cluster(taints=[{**UNREACHABLE, "timeAdded": AN_HOUR_AGO}]), True, False),
        (cluster(taints=[{**UNREACHABLE, "timeAdded": A_MINUTE_AGO}]), False, False),
        (cluster(deleted=A_MINUTE_AGO), True, False),
        (cluster(deleted=A_MINUTE_AGO, status="Unknown", since=A_MINUTE_AGO), True, False),
        (cluster(deleted=A_MINUTE_AGO, status="Unknown"), True, True),
    ],
)
def test_outage_is_a_loss_after_its_time_and_abandoned_if_no_agent_answers(
    cluster: ManagedCluster, lost: bool, abandoned: bool
) -> None:
    outage = outage_of(cluster)
    assert outage is not None
    assert outage.is_lost(AFTER, now=NOW) == lost
    assert outage.is_abandoned(AFTER, now=NOW) == abandoned


def test_available_cluster_has_no_outage() -> None:
    other = {**UNREACHABLE, "key": "example.com/maintenance", "timeAdded": AN_HOUR_AGO}
    assert outage_of(cluster(taints=[other])) is None
