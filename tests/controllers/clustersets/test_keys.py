"""The keys that a new leader reconciles."""

from fairway.api.resources import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from fairway.controllers.clustersets import ClusterSetController
from fairway.controllers.clustersets.keys import BindingKey, ClusterKey, SetKey
from fairway.observe.meters import Meters
from rigs.fake_hub import FakeHub


async def test_keys_are_sets_bindings_defaults_and_clusters_without_a_set() -> None:
    hub = FakeHub()
    hub.put(MANAGED_CLUSTERS, {"metadata": {"name": "bare"}})
    labels = {"cluster.open-cluster-management.io/clusterset": "s"}
    hub.put(MANAGED_CLUSTERS, {"metadata": {"name": "member", "labels": labels}})
    hub.put(MANAGED_CLUSTER_SETS, {"metadata": {"name": "s"}})
    hub.put(MANAGED_CLUSTER_SET_BINDINGS, {"metadata": {"name": "s"}, "spec": {}}, namespace="ns")
    controller = ClusterSetController(hub.client, meters=Meters())
    controller.watch(hub.informers)
    assert set(controller.keys()) == {
        SetKey("s"),
        SetKey("default"),
        SetKey("global"),
        BindingKey("ns", "s"),
        ClusterKey("bare"),
    }
