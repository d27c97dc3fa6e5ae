"""The selector of the objects that a pod belongs to."""

from msgspec import structs

from fairway.api.pod import Pod
from fairway.api.pod_owner import (
    LabelsSpec,
    PodOwner,
    ReplicaSet,
    ReplicationController,
    SelectorSpec,
    Service,
    StatefulSet,
)
from fairway.hosts.nodes.pod_owners import PodOwners
from hosts.nodes.builders import labelled, pod
from kubewire.api.meta import ObjectMeta, OwnerReference
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement

WEB = {"app": "web", "tier": "front"}


def meta(name: str, namespace: str = "ns1") -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace)


def service(name: str, namespace: str = "ns1", **selector: str) -> Service:
    return Service(metadata=meta(name, namespace), spec=LabelsSpec(selector=selector))


def owned(kind: str, name: str, *, api: str = "apps/v1", controller: bool = True) -> Pod:
    owned_pod = pod("p", labels=WEB)
    owner = OwnerReference(apiVersion=api, kind=kind, name=name, uid="u", controller=controller)
    return structs.replace(owned_pod, metadata=structs.replace(owned_pod.metadata, ownerReferences=(owner,)))


def selected(given: Pod, *owners: PodOwner) -> set[tuple[str, str, tuple[str, ...]]] | None:
    known = PodOwners()
    for owner in owners:
        assert known.upsert(owner)
        assert not known.upsert(owner)
    selector = known.selector_of(given)
    if selector is None:
        return None
    return {
        (requirement.key, requirement.operator, tuple(sorted(requirement.values)))
        for requirement in selector.requirements
    }


def test_selectors_of_all_services_of_the_pod_are_merged() -> None:
    given = pod("p", labels=WEB)
    services = (
        service("a", app="web"),
        service("b", tier="front"),
        service("c", app="db"),
        service("d", "ns2", app="web"),
    )
    assert selected(given, *services) == {("app", "In", ("web",)), ("tier", "In", ("front",))}
    assert selected(given, services[2]) is None
    assert selected(given) is None


def test_service_without_a_selector_selects_no_pods() -> None:
    owners = PodOwners()
    assert not owners.upsert(service("a"))
    assert owners.selector_of(pod("p", labels=WEB)) is None


def test_selector_of_the_controller_is_added() -> None:
    expression = LabelSelectorRequirement(key="tier", operator="Exists")
    selector = LabelSelector(matchLabels={"app": "web"}, matchExpressions=(expression,))
    spec = SelectorSpec(selector=selector)
    for owner in (
        ReplicaSet(metadata=meta("own"), spec=spec),
        StatefulSet(metadata=meta("own"), spec=spec),
    ):
        assert selected(owned(owner.kind, "own"), owner) == {
            ("app", "In", ("web",)),
            ("tier", "Exists", ()),
        }
        assert selected(owned(owner.kind, "other"), owner) is None
        assert selected(owned(owner.kind, "own", controller=False), owner) is None
        assert selected(owned(owner.kind, "own", api="apps/v1beta1"), owner) is None
    old = ReplicationController(metadata=meta("own"), spec=LabelsSpec(selector={"tier": "front"}))
    assert selected(owned(old.kind, "own", api="v1"), old, service("a", app="web")) == {
        ("app", "In", ("web",)),
        ("tier", "In", ("front",)),
    }


def test_invalid_selector_of_a_controller_adds_nothing() -> None:
    wrong = LabelSelectorRequirement(key="tier", operator="Near")
    spec = SelectorSpec(selector=LabelSelector(matchExpressions=(wrong,)))
    assert selected(owned("ReplicaSet", "own"), ReplicaSet(metadata=meta("own"), spec=spec)) is None


def test_deleted_owners_select_no_pods() -> None:
    owners, given = PodOwners(), owned("ReplicaSet", "own")
    both: tuple[PodOwner, ...] = (
        service("a", app="web"),
        ReplicaSet(metadata=meta("own"), spec=SelectorSpec(selector=labelled(app="web"))),
    )
    for owner in both:
        owners.upsert(owner)
    assert owners.selector_of(given) is not None
    for owner in both:
        assert owners.delete(owner)
        assert not owners.delete(owner)
    assert owners.selector_of(given) is None
