"""What a request may create on a host, by its policy."""

from typing import Any

import msgspec
import pytest

from fairway.api.secret import Secret
from fairway.engine.workload import HostKey
from fairway.hosts.steps import finish
from fairway.workloads.hosting import place
from fairway.workloads.hosting.requests.conditions import MISCONFIGURED
from fairway.workloads.hosting.requests.request_status import policy_status
from fairway.workloads.hosting.rules.host_namespaces import derived_namespace
from fairway.workloads.hosting.rules.permits import NotPermitted, Permits
from fairway.workloads.hosting.rules.policy import policy_of
from workloads.hosting.hosts import NOW, START, host, load, placed, policy, request, state_of

OWN = derived_namespace("team-a")


def state(*others: Any, **permits: Any) -> Any:
    return state_of(host("h1"), load("h1", count=0), policy(permits=permits), *others)


def named(namespace: str, *, name: str = "shop") -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "spec": {}}


def test_request_without_namespace_gets_the_one_of_its_own_namespace() -> None:
    assert state().workload_of(request("shop")).spec.namespace == OWN
    assert state().workload_of(request("shop", namespace="team-b")).spec.namespace != OWN


def test_former_default_counts_as_not_set_unless_it_is_permitted() -> None:
    stored = request("shop", hostedCluster=named("clusters"))
    assert state().workload_of(stored).spec.namespace == OWN
    assert state(hostNamespaces=["clusters"]).workload_of(stored).spec.namespace == "clusters"


@pytest.mark.parametrize(
    ("permitted", "namespace", "message"),
    [
        ([], "prod", "policy default does not permit namespace prod on hosting clusters"),
        (["prod-*"], "prod", "lists: prod-*"),
        (["kube-system", "kube-*"], "kube-system", "namespace kube-system of a hosting cluster is protected"),
        (["d*"], "default", "is protected (default), whatever the policy lists"),
        (["open-*"], "open-cluster-management-agent", "is protected"),
        (["hc-*"], derived_namespace("team-b"), "is for requests of another namespace"),
    ],
)
def test_namespace_that_is_not_permitted_is_refused_with_the_one_to_use(
    permitted: list[str], namespace: str, message: str
) -> None:
    (decision,) = place(
        state(hostNamespaces=permitted), [request("shop", hostedCluster=named(namespace))], now=NOW
    )
    assert (decision.host, decision.reason) == (None, MISCONFIGURED)
    assert decision.message.startswith("spec.hostedCluster.namespace: ")
    assert message in decision.message
    assert OWN in decision.message


def test_permitted_namespace_is_used() -> None:
    fleet = state(hostNamespaces=["prod-*"])
    wanted = request("shop", hostedCluster=named("prod-eu"))
    assert place(fleet, [wanted], now=NOW)[0].host is not None
    assert fleet.workload_of(wanted).spec.namespace == "prod-eu"


@pytest.mark.parametrize(
    ("namespace", "name", "message"),
    [
        ("kube", "system", "in namespace kube-system of the hosting cluster, which is protected (kube-*)"),
        ("open-cluster", "management.agent", "in namespace open-cluster-management-agent"),
        (OWN, "n" * 40, "has 64 characters of at most 63; write a name of at most 39"),
    ],
)
def test_namespace_of_the_control_plane_must_be_free_and_valid(
    namespace: str, name: str, message: str
) -> None:
    wanted = request("shop", hostedCluster=named(namespace, name=name))
    (decision,) = place(state(hostNamespaces=["kube", "open-cluster"]), [wanted], now=NOW)
    assert decision.message.startswith("spec.hostedCluster.name: ")
    assert message in decision.message


def test_control_planes_of_two_tenants_do_not_share_a_namespace() -> None:
    """``a`` with ``b-c``, and ``a-b`` with ``c``, would both run in ``a-b-c``."""
    first = placed("one", "h1", hostedCluster=named("a", name="b-c"))
    fleet = state(first, hostNamespaces=["a", "a-b", "a-b-c"])
    for template in (named("a-b", name="c"), named("a-b-c")):
        (decision,) = place(fleet, [request("two", namespace="team-b", hostedCluster=template)], now=NOW)
        assert decision.rejections[0].reason == "its Namespace a-b-c belongs to request team-a/one"


def test_names_with_and_without_a_dot_do_not_share_a_control_plane() -> None:
    first = request("one", hostedCluster={"name": "eu.shop", "spec": {}})
    second = request("two", hostedCluster={"name": "eu-shop", "spec": {}})
    hosted, refused = place(state(), [first, second], now=NOW)
    assert (hosted.host, refused.host) == (HostKey("h1", "uid-h1"), None)


def test_tenants_share_names_where_their_namespaces_differ() -> None:
    pair = [
        request("shop", namespace=namespace, secrets=[{"name": "pull"}]) for namespace in ("team-a", "team-b")
    ]
    assert all(decision.host is not None for decision in place(state(), pair, now=NOW))


@pytest.mark.parametrize("name", ["shop-admin-kubeconfig", "shop-kubeadmin-password"])
def test_secrets_of_hypershift_are_not_written(name: str) -> None:
    (decision,) = place(state(), [request("shop", secrets=[{"name": name}])], now=NOW)
    assert f"HyperShift itself writes Secret {name}" in decision.message
    (other,) = place(
        state(placed("shop", "h1", hostedCluster=named("clusters")), hostNamespaces=["clusters"]),
        [
            request(
                "x",
                namespace="team-b",
                hostedCluster=named("clusters", name="x"),
                secrets=[{"name": name}],
            )
        ],
        now=NOW,
    )
    assert other.rejections[0].reason == f"its Secret clusters/{name} belongs to request team-a/shop"


def test_secret_names_are_limited_by_the_policy() -> None:
    fleet = state(secretNames=["pull-*", "ssh"])
    allowed = request("a", secrets=[{"name": "pull-a"}, {"name": "ssh"}])
    assert place(fleet, [allowed], now=NOW)[0].host is not None
    (decision,) = place(fleet, [request("b", secrets=[{"name": "sshd"}])], now=NOW)
    assert "policy default does not permit the name sshd" in decision.message
    assert "pull-*, ssh" in decision.message


def secret(type_: str) -> dict[str, Secret]:
    body = {"metadata": {"name": "s", "namespace": "team-a"}, "type": type_, "data": {}}
    return {"s": msgspec.convert(body, Secret)}


def test_secret_types_are_those_that_hosted_clusters_need() -> None:
    for type_ in ("", "Opaque", "kubernetes.io/dockerconfigjson", "kubernetes.io/tls"):
        Permits().check_secret_types(secret(type_), policy="default")
    for type_ in ("kubernetes.io/basic-auth", "bootstrap.kubernetes.io/token"):
        with pytest.raises(NotPermitted, match=f"Secret team-a/s, whose type is {type_}"):
            Permits().check_secret_types(secret(type_), policy="default")


def test_credentials_of_the_host_are_refused_even_if_a_policy_lists_their_type() -> None:
    listed = Permits(secret_types=("kubernetes.io/service-account-token", "kubernetes.io/basic-auth"))
    listed.check_secret_types(secret("kubernetes.io/basic-auth"), policy="default")
    with pytest.raises(NotPermitted):
        listed.check_secret_types(secret("kubernetes.io/service-account-token"), policy="default")


def test_policy_is_for_the_namespaces_that_it_lists() -> None:
    fleet = state_of(
        host("h1"),
        load("h1", count=0),
        policy(namespaces=["team-*"]),
        policy("gold", namespaces=["team-a"]),
    )
    answers = place(
        fleet,
        [
            request("a", policy="gold"),
            request("b", namespace="team-b", policy="gold"),
            request("c", namespace="x"),
        ],
        now=NOW,
    )
    assert answers[0].host is not None
    assert answers[1].message == (
        "spec.policy: policy gold is not for requests of namespace team-b; name one that is: default"
    )
    assert answers[2].message.endswith("name one that is: none")


def test_condition_of_a_policy_names_what_it_lists_in_vain() -> None:
    given = policy(permits={"hostNamespaces": ["prod", "openshift-*"]})
    (condition,) = finish(policy_status(given, state_of(given), now=START)).conditions
    assert (condition.status, condition.reason) == ("False", "ProtectedNamespace")
    assert "openshift-* matches namespaces of openshift-*" in condition.message
    assert policy_of(given).permits.host_namespaces == ("prod", "openshift-*")
