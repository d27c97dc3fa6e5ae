"""The template of a policy under a request."""

from typing import Any

import msgspec
import pytest

from fairway.api.hosting_template import HostingTemplate
from fairway.workloads.hosting.rules.template import content_digest, with_template
from workloads.hosting.hosts import request


def template(**fields: Any) -> HostingTemplate:
    return msgspec.convert(fields, HostingTemplate)


@pytest.mark.parametrize(
    ("defaults", "given", "merged"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="both"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, id="the request wins"),
        pytest.param({"a": {"b": 1, "c": {"d": 1}}}, {"a": {"c": {"e": 2}}}, {"a": {"b": 1, "c": {"d": 1, "e": 2}}},
                     id="maps"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists are replaced"),
        pytest.param({"a": [1]}, {"a": []}, {"a": []}, id="also by an empty one"),
        pytest.param({"a": {"b": 1}}, {"a": 2}, {"a": 2}, id="another kind of value"),
        pytest.param({"a": 2}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="a map over a value"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}, id="null removes inside"),
        pytest.param({}, {"a": None}, {"a": None}, id="null without a default is unchanged"),
        pytest.param(
            {"platform": {"type": "AWS", "aws": {"region": "x"}}, "etcd": {"managementType": "Managed"}},
            {"platform": {"type": "None"}},
            {"platform": {"type": "None"}, "etcd": {"managementType": "Managed"}},
            id="another variant",
        ),
        pytest.param(
            {"platform": {"type": "AWS", "aws": {"region": "x", "vpc": "v"}}},
            {"platform": {"type": "AWS", "aws": {"region": "y"}}},
            {"platform": {"type": "AWS", "aws": {"region": "y", "vpc": "v"}}},
            id="the same variant",
        ),
        pytest.param(
            {"platform": {"type": "AWS", "aws": {"region": "x"}}},
            {"platform": {"aws": {"region": "y"}}},
            {"platform": {"type": "AWS", "aws": {"region": "y"}}},
            id="the default variant",
        ),
        pytest.param({"type": "A", "x": 1}, {"type": "B", "x": None, "y": None}, {"type": "B", "y": None},
                     id="null in another variant"),
    ],
)  # fmt: skip
def test_fields_of_the_request_take_precedence(
    defaults: dict[str, Any], given: dict[str, Any], merged: dict[str, Any]
) -> None:
    asked = request("web", hostedCluster={"spec": given})
    made = with_template(asked, template(hostedCluster={"spec": defaults}))
    assert made.spec.hostedCluster.spec == merged
    assert asked.spec.hostedCluster.spec == given


def test_labels_annotations_node_pools_and_secrets_have_defaults() -> None:
    asked = request(
        "web",
        hostedCluster={"spec": {}, "labels": {"a": "request"}, "annotations": {"c": "request"}},
        nodePools=[{"name": "one", "spec": {"replicas": 1}}, {"name": "two", "spec": {"replicas": 2}}],
        secrets=[{"name": "ssh"}, {"name": "pull"}],
    )
    made = with_template(
        asked,
        template(
            hostedCluster={"labels": {"a": "t", "b": "t"}, "annotations": {"c": "t", "d": "t"}},
            nodePool={"labels": {"e": "t"}, "spec": {"replicas": 9, "platform": {"type": "None"}}},
            secrets=[{"name": "pull"}, {"name": "ca"}],
        ),
    ).spec
    assert made.hostedCluster.labels == {"a": "request", "b": "t"}
    assert made.hostedCluster.annotations == {"c": "request", "d": "t"}
    assert [(pool.name, pool.labels, pool.spec) for pool in made.nodePools] == [
        ("one", {"e": "t"}, {"replicas": 1, "platform": {"type": "None"}}),
        ("two", {"e": "t"}, {"replicas": 2, "platform": {"type": "None"}}),
    ]
    assert [secret.name for secret in made.secrets] == ["ssh", "pull", "ca"]


def test_deep_request_is_merged_no_deeper_than_the_template() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    made = with_template(
        request("web", hostedCluster={"spec": {"b": deep}}),
        template(hostedCluster={"spec": {"b": {"a": {"c": 1}}}}),
    )
    inner = made.spec.hostedCluster.spec["b"]["a"]
    assert inner["c"] == 1
    while deep:  # freeing it recursively would exhaust the stack
        deep = deep.pop("a")


def test_digest_follows_what_is_created() -> None:
    plain = request("web", hostedCluster={"spec": {"a": 1, "b": 2}})
    assert content_digest(plain) == content_digest(request("web", hostedCluster={"spec": {"b": 2, "a": 1}}))
    assert content_digest(plain) == content_digest(
        request("web", hostedCluster=plain.spec.hostedCluster, size="large")
    )
    others = [
        request("web", hostedCluster={"spec": {"a": 1}}),
        request("web", hostedCluster=plain.spec.hostedCluster, nodePools=[{"name": "x", "spec": {}}]),
        request("web", hostedCluster=plain.spec.hostedCluster, availability="SingleReplica"),
    ]
    assert len({content_digest(one) for one in (plain, *others)}) == 4
