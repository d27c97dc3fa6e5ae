import msgspec
import pytest

from fairway.kube.codec import codec_of
from fairway.providers.usage.objects import NodeRoom, PodUse, UpstreamPodUse, vector_of
from providers.usage.objects import GIB, as_node, as_pod, node, pod


def test_a_pod_keeps_only_what_it_takes_and_where() -> None:
    document = pod("web", "n1", {"cpu": "500m", "memory": "1Gi"}, namespace="shop", init={"cpu": "2"})
    document["metadata"]["labels"] = {"app": "web"}
    document["metadata"]["annotations"] = {"note": "x" * 1000}
    kept = as_pod(document)
    assert (kept.node, kept.vector) == ("n1", (("cpu", 2000), ("memory", GIB), ("pods", 1)))
    assert (kept.spec.containers, kept.spec.nodeName, kept.status.phase) == ((), "", "")
    assert (kept.metadata.labels, kept.metadata.annotations) == ({}, {})
    assert (kept.metadata.namespace, kept.metadata.name) == ("shop", "web")


def test_pods_that_ask_for_the_same_share_it() -> None:
    first, second = (as_pod(pod(name, "n1", {"cpu": "1"})) for name in ("a", "b"))
    assert first.vector is second.vector
    assert first.node is second.node
    assert vector_of({"pods": 1, "cpu": 1000}) is first.vector


def test_sharing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairway.providers.usage.objects._MOST_SHARED", 3)
    vectors = [vector_of({"cpu": amount}) for amount in range(10_000, 10_020)]
    assert vectors == [(("cpu", amount),) for amount in range(10_000, 10_020)]


def test_the_bookmark_that_ends_a_list_is_still_one() -> None:
    line = b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7","annotations":%s}}}'
    (event,) = codec_of(PodUse).events(line % b'{"k8s.io/initial-events-end":"true"}').events
    assert event.ends_initial_events
    (event,) = codec_of(PodUse).events(line % b'{"other":"true"}').events
    assert not event.ends_initial_events


def test_a_bad_amount_costs_only_itself() -> None:
    kept = as_pod(pod("web", "n1", {"cpu": "lots", "memory": "1Gi"}, namespace="shop"))
    assert kept.vector == (("memory", GIB), ("pods", 1))
    assert kept.problem.startswith('Pod shop/web: cpu: quantity "lots" does not start with a number; write')


def test_a_node_with_garbage_gives_the_rest() -> None:
    kept = as_node(node("n1", {"cpu": "garbage", "memory": "1Gi", "nvidia.com/gpu": "0"}))
    assert kept.allocatable == {"memory": GIB, "nvidia.com/gpu": 0}
    assert kept.kinds == {"memory"}
    assert kept.problem.startswith(
        'Node n1: allocatable cpu: quantity "garbage" does not start with a number'
    )


def test_a_node_whose_devices_are_all_broken_still_has_them() -> None:
    document = node("n1", {"cpu": "1", "nvidia.com/gpu": "4"})
    document["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    assert msgspec.convert(document, NodeRoom).kinds == {"cpu", "nvidia.com/gpu"}


def test_as_ocm_s_add_on_reckons_only_containers_and_overhead_count() -> None:
    document = pod("web", "n1", {"cpu": "1"}, init={"cpu": "8"})
    document["spec"]["overhead"] = {"cpu": "100m"}
    document["spec"]["resources"] = {"requests": {"cpu": "5"}}
    assert msgspec.convert(document, UpstreamPodUse).vector == (("cpu", 1100), ("pods", 1))
    assert msgspec.convert(document, PodUse).vector == (("cpu", 5100), ("pods", 1))
