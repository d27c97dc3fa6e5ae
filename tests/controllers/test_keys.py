"""Keys of different kinds are different, and log lines show the kind."""

from collections.abc import Hashable

import pytest

from fairway.controllers.acceptance import keys as acceptance
from fairway.controllers.addons import keys as addons
from fairway.controllers.bridge import keys as bridge
from fairway.controllers.clustersets import keys as clustersets
from fairway.controllers.hosting import keys as hosting
from fairway.controllers.machines import lanes
from fairway.controllers.pods import keys as pods
from fairway.controllers.recovery import keys as recovery
from fairway.controllers.scores import keys as scores

HOSTING = {
    hosting.RequestKey("a", "b"): "a/b",
    hosting.WorkKey("a", "b"): "manifestworks/a/b",
    hosting.PolicyKey("b"): "b",
    hosting.TimersKey(): "timers",
    hosting.OffersKey(): "offers",
}
ACCEPTANCE = {
    acceptance.ClusterKey("b"): "b",
    acceptance.RoleKey("b"): "ClusterRole/b",
    acceptance.CsrKey("b"): "CertificateSigningRequest/b",
    acceptance.OcmLeaseKey(): "Lease",
}
CLUSTER_SETS = {
    clustersets.SetKey("b"): "b",
    clustersets.BindingKey("a", "b"): "a/b",
    clustersets.ClusterKey("b"): "ManagedCluster/b",
}
ADD_ONS = {
    addons.AddOnKey("a", "b"): "a/b",
    addons.OfferKey("b"): "b",
    addons.ClusterKey("b"): ":cluster/b",
    addons.CsrKey("b"): ":request/b",
    addons.OrphanedWorksKey("b"): ":waiting/b",
    addons.OcmLeaseKey(): ":ocm",
}
BRIDGE = {
    bridge.AddOnCopyKey("a"): "a/addonplacementscores",
    bridge.ManagedCopiesKey("a"): "a/managedclusterscores",
}
RECOVERY = {recovery.ClusterKey("a"): "a", recovery.FleetKey(): "fleet"}
SCORES = {scores.ScoreKey("a", "b"): "a/b", scores.ManagedClusterScoreKey("a", "b"): "a/b"}
PODS = {pods.StatusKey("a", "b"): "a/b", pods.EvictionKey("a", "b"): "evictions/a/b"}
LANES = {lanes.PermitLane("a", "b"): "permit/a/b", lanes.MigrationLane("a", "b"): "migration/a/b"}


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        (HOSTING, 5),
        (ACCEPTANCE, 4),
        (ADD_ONS, 6),
        (CLUSTER_SETS, 3),
        (BRIDGE, 2),
        (RECOVERY, 2),
        (SCORES, 2),
        (PODS, 2),
        (LANES, 2),
    ],
)
def test_keys_of_different_kinds_are_different_and_show_their_kind(
    keys: dict[Hashable, str], count: int
) -> None:
    assert len(keys) == count
    assert {key: str(key) for key in keys} == keys
