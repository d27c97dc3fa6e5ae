import msgspec
import pytest

from fairway.providers.usage.objects import NodeRoom, PodUse, UpstreamPodUse, vector_of
from kubewire.client.codec import codec_of
from providers.usage.objects import GIB, as_node, as_pod, node, pod


def test_decoded_pod_keeps_requests_and_node_only() -> None:
    document = pod("web", "n1", {"cpu": "500m", "memory": "1Gi"}, namespace="shop", init={"cpu": "2"})
    document["metadata"]["labels"] = {"app": "web"}
    document["metadata"]["annotations"] = {"note": "x" * 1000}
    kept = as_pod(document)
    assert (kept.node, kept.vector) == ("n1", (("cpu", 2000), ("memory", GIB), ("pods", 1)))
    assert (kept.spec.containers, kept.spec.nodeName, kept.status.phase) == ((), "", "")
    assert (kept.metadata.labels, kept.metadata.annotations) == ({}, {})
    assert (kept.metadata.namespace, kept.metadata.name) == ("shop", "web")


def test_equal_requests_share_one_vector() -> None:
    first, second = (as_pod(pod(name, "n1", {"cpu": "1"})) for name in ("a", "b"))
    assert first.vector is second.vector
    assert first.node is second.node
    assert vector_of({"pods": 1, "cpu": 1000}) is first.vector


def test_shared_vectors_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairway.providers.usage.objects._MOST_SHARED", 3)
    vectors = [vector_of({"cpu": amount}) for amount in range(10_000, 10_020)]
    assert vectors == [(("cpu", amount),) for amount in range(10_000, 10_020)]


def test_initial_events_end_annotation_is_kept() -> None:
    line = b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7","annotations":%s}}}'
    (event,) = codec_of(PodUse).events(line % b'{"k8s.io/initial-events-end":"true"}').events
    assert event.ends_initial_events
    (event,) = codec_of(PodUse).events(line % b'{"other":"true"}').events
    assert not event.ends_initial_events


def test_invalid_pod_request_affects_only_itself() -> None:
    kept = as_pod(pod("web", "n1", {"cpu": "lots", "memory": "1Gi"}, namespace="shop"))
    assert kept.vector == (("memory", GIB), ("pods", 1))
    assert kept.problem.startswith('Pod shop/web: cpu: quantity "lots" does not start with a number; write')


def test_invalid_node_amount_affects_only_itself() -> None:
    kept = as_node(node("n1", {"cpu": "garbage", "memory": "1Gi", "nvidia.com/gpu": "0"}))
    assert kept.allocatable == {"memory": GIB, "nvidia.com/gpu": 0}
    assert kept.kinds == {"memory"}
    assert kept.problem.startswith(
        'Node n1: allocatable cpu: quantity "garbage" does not start with a number'
    )


def test_node_with_broken_devices_still_has_the_kind() -> None:
    document = node("n1", {"cpu": "1", "nvidia.com/gpu": "4"})
    document["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    assert msgspec.convert(document, NodeRoom).kinds == {"cpu", "nvidia.com/gpu"}


def test_upstream_parity_counts_containers_and_overhead() -> None:
    document = pod("web", "n1", {"cpu": "1"}, init={"cpu": "8"})
    document["spec"]["overhead"] = {"cpu": "100m"}
    document["spec"]["resources"] = {"requests": {"cpu": "5"}}
    assert msgspec.convert(document, UpstreamPodUse).vector == (("cpu", 1100), ("pods", 1))
    assert msgspec.convert(document, PodUse).vector == (("cpu", 5100), ("pods", 1))
