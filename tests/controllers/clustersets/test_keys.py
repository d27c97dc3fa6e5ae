"""What a new leader looks at, whatever was looked at before."""

from controllers.availability.still import StillHub
from fairway.controllers.clustersets import ClusterSetController
from fairway.controllers.clustersets.controller import CLUSTER
from fairway.kube import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS
from fairway.observe.meters import Meters


async def test_sets_bindings_the_defaults_and_clusters_without_a_set() -> None:
    hub = StillHub()
    hub.cluster("bare")
    hub.cluster("member")
    hub.edit("member", metadata={"labels": {"cluster.open-cluster-management.io/clusterset": "s"}})
    hub.put(MANAGED_CLUSTER_SETS, {"metadata": {"name": "s"}})
    hub.put(MANAGED_CLUSTER_SET_BINDINGS, {"metadata": {"name": "s"}, "spec": {}}, namespace="ns")
    controller = ClusterSetController(hub.client, meters=Meters())
    controller.watch(hub.informers)
    assert set(controller.keys()) == {
        ("", "s"),
        ("", "default"),
        ("", "global"),
        ("ns", "s"),
        (CLUSTER, "bare"),
    }


async def test_without_the_defaults_only_what_is_there() -> None:
    hub = StillHub()
    hub.cluster("bare")
    hub.put(MANAGED_CLUSTER_SETS, {"metadata": {"name": "s"}})
    controller = ClusterSetController(hub.client, meters=Meters(), default_sets=False, default_label=False)
    controller.watch(hub.informers)
    assert set(controller.keys()) == {("", "s")}
    assert controller.queue.figures().depth == 1
