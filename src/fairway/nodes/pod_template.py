"""What scheduling needs of a pod, computed once for all pods that differ in their names only."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from fairway.api.node import NodeTaint
from fairway.api.pod import ALWAYS, RESIZE_PENDING, Pod
from fairway.api.pod_affinity import (
    DO_NOT_SCHEDULE,
    HONOR,
    IGNORE,
    SCHEDULE_ANYWAY,
    Affinity,
    NodeAffinity,
    PodAffinity,
    Toleration,
    TopologySpreadConstraint,
)
from fairway.api.pod_requests import (
    CPU,
    MEMORY,
    PODS,
    incoming_scoring_requests,
    readable_requests,
    scoring_requests,
)
from fairway.api.selector import IN, Selector, SelectorError, compile_selector
from fairway.fleet.column import Key
from fairway.fleet.resources import requested
from fairway.nodes.cells import in_milli_units
from fairway.nodes.node_selection import (
    NAME_FIELD,
    NodeTerm,
    RequiredNodes,
    compile_term,
    compile_terms,
    is_invalid,
    select_labels,
)
from fairway.nodes.pod_columns import (
    ANY_ADDRESS,
    POD_GROUP,
    TERMINATING,
    WILDCARD,
    host_port,
    scoring_requested,
)
from fairway.nodes.pod_selection import (
    AffinityTerm,
    PodQuery,
    TermKind,
    compile_affinity_term,
    labels_text,
    with_label_keys,
)

KEPT: Final = 4096
"""Maximum number of templates. Pods that exist keep theirs."""

_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_templates: OrderedDict[bytes, "PodTemplate"] = OrderedDict()


@dataclass(frozen=True, slots=True)
class HostPort:
    protocol: str
    port: int
    address: str


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topology spread constraint, with the pods that it counts."""

    topology_key: str
    max_skew: int
    min_domains: int
    pods: Key | None
    """The column of the pods that it counts. An empty selector means no pods, as in kube-scheduler."""
    matches_itself: bool
    """Whether the pod is one of those that it counts."""
    honors_affinity: bool
    """Whether only nodes of the pod's required affinity count."""
    honors_taints: bool
    """Whether only nodes whose taints the pod tolerates count."""


class PodTemplate:
    """Compiled on demand: of most pods on nodes only the amounts are needed."""

    def __init__(self, pod: Pod, signature: bytes) -> None:
        self._pod = pod
        self.signature = signature
        """Pods with equal signatures are scheduled alike, except for their own names and the node that they name."""
        self.namespace = pod.metadata.namespace
        self.labels: Mapping[str, str] = pod.metadata.labels
        self.terminating = pod.terminating
        self._affinity = pod.spec.affinity or Affinity()
        self._node_affinity = self._affinity.nodeAffinity or NodeAffinity()

    @cached_property
    def requests(self) -> Mapping[str, int]:
        """Milli-units by resource, and one pod. Invalid quantities count 0."""
        requests, _ = readable_requests(self._pod)
        return {**{name: in_milli_units(name, amount) for name, amount in requests.items()}, PODS: 1000}

    @cached_property
    def scoring_requests(self) -> Mapping[str, int]:
        """What the pod adds to the scored CPU and memory of its node, in milli-units, with defaults for containers
        that have no requests."""
        found = scoring_requests(self._pod)
        return {name: in_milli_units(name, found.get(name, 0)) for name in (CPU, MEMORY)}

    @cached_property
    def incoming_scoring_requests(self) -> Mapping[str, int]:
        """What the pod counts, in milli-units, when nodes are scored for it by their free resources."""
        found = incoming_scoring_requests(self._pod)
        return {name: in_milli_units(name, amount) for name, amount in found.items()}

    @cached_property
    def amounts(self) -> Mapping[Key, int]:
        """What the pod adds to each column of its node."""
        found = {requested(name): amount for name, amount in self.requests.items()}
        for name, amount in self.scoring_requests.items():
            found[scoring_requested(name)] = amount
        for port in self.host_ports:
            for address in (ANY_ADDRESS, port.address):
                key = host_port(port.protocol, port.port, address)
                found[key] = found.get(key, 0) + 1
        terminating = TERMINATING if self.terminating else ""
        found[POD_GROUP, self.namespace, labels_text(self.labels), terminating] = 1
        for key in self.term_keys:
            found[key] = found.get(key, 0) + 1
        return {key: amount for key, amount in found.items() if amount}

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Of containers and sidecars."""
        spec = self._pod.spec
        containers = (
            *(each for each in spec.initContainers if each.restartPolicy == ALWAYS),
            *spec.containers,
        )
        return tuple(
            dict.fromkeys(
                HostPort(port.protocol or "TCP", port.hostPort, port.hostIP or WILDCARD)
                for each in containers
                for port in each.ports
                if port.hostPort > 0
            )
        )

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Images of init containers, containers and volumes, with a tag."""
        spec = self._pod.spec
        named = (
            *(each.image for each in (*spec.initContainers, *spec.containers)),
            *(each.image.reference for each in spec.volumes if each.image is not None),
        )
        return tuple(map(_with_tag, named))

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        return self._pod.spec.tolerations

    def tolerates(self, taint: NodeTaint) -> bool:
        return any(each.tolerates(taint) for each in self._pod.spec.tolerations)

    @cached_property
    def claims(self) -> tuple[str, ...]:
        """Names of the PersistentVolumeClaims."""
        return _claims_of(self._pod)

    # Nodes

    @cached_property
    def required_nodes(self) -> RequiredNodes | None:
        """None if every node is acceptable."""
        spec = self._pod.spec
        given = self._node_affinity.requiredDuringSchedulingIgnoredDuringExecution
        if given is None and not spec.nodeSelector:
            return None
        terms = None if given is None else compile_terms(given.nodeSelectorTerms)
        return RequiredNodes(select_labels(spec.nodeSelector or {}), terms)

    @cached_property
    def named_nodes(self) -> frozenset[str] | None:
        """The nodes to which the required affinity restricts the pod by name; None if one of its terms does not."""
        given = self._node_affinity.requiredDuringSchedulingIgnoredDuringExecution
        if given is None or not given.nodeSelectorTerms:
            return None
        names: set[str] = set()
        for term in given.nodeSelectorTerms:
            sets = [
                set(each.values)
                for each in term.matchFields
                if each.key == NAME_FIELD and each.operator == IN
            ]
            if not sets:
                return None
            names |= set.intersection(*sets)
        return frozenset(names)

    @cached_property
    def preferred_nodes(self) -> tuple[tuple[int, NodeTerm], ...] | None:
        """Weights and terms; None if the pod has no preferred node affinity."""
        terms = self._node_affinity.preferredDuringSchedulingIgnoredDuringExecution
        if terms is None:
            return None
        return tuple(
            (each.weight, term)
            for each in terms
            if each.weight and (term := compile_term(each.preference)) is not None
        )

    @cached_property
    def has_invalid_preference(self) -> bool:
        terms = self._node_affinity.preferredDuringSchedulingIgnoredDuringExecution or ()
        return any(each.weight and is_invalid(each.preference) for each in terms)

    # Other pods

    @cached_property
    def affinity(self) -> tuple[AffinityTerm, ...]:
        return self._required(self._affinity.podAffinity)

    @cached_property
    def anti_affinity(self) -> tuple[AffinityTerm, ...]:
        return self._required(self._affinity.podAntiAffinity)

    @cached_property
    def preferred_affinity(self) -> tuple[AffinityTerm, ...]:
        return self._preferred(self._affinity.podAffinity)

    @cached_property
    def preferred_anti_affinity(self) -> tuple[AffinityTerm, ...]:
        return self._preferred(self._affinity.podAntiAffinity)

    def _required(self, given: PodAffinity | None) -> tuple[AffinityTerm, ...]:
        if given is None:
            return ()
        return tuple(
            compile_affinity_term(each, namespace=self.namespace, labels=self.labels)
            for each in given.requiredDuringSchedulingIgnoredDuringExecution
        )

    def _preferred(self, given: PodAffinity | None) -> tuple[AffinityTerm, ...]:
        if given is None:
            return ()
        return tuple(
            compile_affinity_term(
                each.podAffinityTerm, namespace=self.namespace, labels=self.labels, weight=each.weight
            )
            for each in given.preferredDuringSchedulingIgnoredDuringExecution
        )

    @cached_property
    def term_keys(self) -> tuple[Key, ...]:
        """Columns of the affinity terms. Of a pod with an invalid term none counts, as in kube-scheduler."""
        if self._pod.spec.affinity is None:
            return ()
        try:
            return tuple(
                term.key(kind)
                for kind, terms in (
                    (TermKind.REQUIRED_AFFINITY, self.affinity),
                    (TermKind.REQUIRED_ANTI_AFFINITY, self.anti_affinity),
                    (TermKind.PREFERRED_AFFINITY, self.preferred_affinity),
                    (TermKind.PREFERRED_ANTI_AFFINITY, self.preferred_anti_affinity),
                )
                for term in terms
            )
        except SelectorError:
            return ()

    @cached_property
    def required_spread(self) -> tuple[SpreadConstraint, ...]:
        return self._spread(DO_NOT_SCHEDULE)

    @cached_property
    def preferred_spread(self) -> tuple[SpreadConstraint, ...]:
        return self._spread(SCHEDULE_ANYWAY)

    @property
    def has_spread(self) -> bool:
        """Whether the pod has constraints of its own, so that default ones do not apply."""
        return bool(self._pod.spec.topologySpreadConstraints)

    @property
    def has_preferred_spread(self) -> bool:
        return any(
            each.whenUnsatisfiable == SCHEDULE_ANYWAY for each in self._pod.spec.topologySpreadConstraints
        )

    def _spread(self, action: str) -> tuple[SpreadConstraint, ...]:
        return tuple(
            self._constraint(each)
            for each in self._pod.spec.topologySpreadConstraints
            if each.whenUnsatisfiable == action
        )

    def _constraint(self, given: TopologySpreadConstraint) -> SpreadConstraint:
        wire = with_label_keys(given.labelSelector, self.labels, match=given.matchLabelKeys)
        return self.constraint_on(given, compile_selector(wire))

    def constraint_on(self, given: TopologySpreadConstraint, selector: Selector) -> SpreadConstraint:
        """Return a constraint on the pods that a selector means, whatever selector the constraint has."""
        query = PodQuery(((frozenset({self.namespace}), selector),), terminating=False)
        return SpreadConstraint(
            topology_key=given.topologyKey,
            max_skew=given.maxSkew,
            min_domains=1 if given.minDomains is None else given.minDomains,
            pods=query.key() if selector.requirements else None,
            matches_itself=selector.matches(self.labels),
            honors_affinity=(given.nodeAffinityPolicy or HONOR) == HONOR,
            honors_taints=(given.nodeTaintsPolicy or IGNORE) == HONOR,
        )


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A pod and its template."""

    pod: Pod
    template: PodTemplate

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0


def info_of(pod: Pod) -> PodInfo:
    return PodInfo(pod, template_of(pod))


def template_of(pod: Pod) -> PodTemplate:
    """Return the template of a pod, from a cache of the most recently used ones."""
    signature = _signature(pod)
    found = _templates.get(signature)
    if found is None:
        found = _templates[signature] = PodTemplate(pod, signature)
        if len(_templates) > KEPT:
            _templates.popitem(last=False)
    else:
        _templates.move_to_end(signature)
    return found


def _signature(pod: Pod) -> bytes:
    meta, spec, status = pod.metadata, pod.spec, pod.status
    return _encode(
        (
            meta.namespace,
            meta.labels,
            pod.terminating,
            spec.containers,
            spec.initContainers,
            spec.overhead,
            spec.resources,
            spec.nodeSelector,
            spec.affinity,
            spec.tolerations,
            spec.topologySpreadConstraints,
            _claims_of(pod) if spec.volumes else None,
            [each.image for each in spec.volumes if each.image is not None],
            [each for each in status.conditions if each.type == RESIZE_PENDING],
            status.containerStatuses,
            status.initContainerStatuses,
            status.allocatedResources,
            status.resources,
            status.nodeAllocatableResourceClaimStatuses,
        )
    )


def _claims_of(pod: Pod) -> tuple[str, ...]:
    found: list[str] = []
    for each in pod.spec.volumes:
        if each.persistentVolumeClaim is not None:
            found.append(each.persistentVolumeClaim.claimName)
        elif each.ephemeral is not None:
            found.append(f"{pod.metadata.name}-{each.name}")
    return tuple(found)


def _with_tag(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
