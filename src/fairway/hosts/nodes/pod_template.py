"""What scheduling needs of a pod, computed once for all pods that differ in their names only."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from fairway.api.node import NodeTaint
from fairway.api.persistent_volume import PersistentVolumeClaim
from fairway.api.pod import ALWAYS, RESIZE_PENDING, Pod, Volume
from fairway.api.pod_affinity import (
    DO_NOT_SCHEDULE,
    HONOR,
    IGNORE,
    SCHEDULE_ANYWAY,
    Affinity,
    NodeAffinity,
    PodAffinity,
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
from fairway.hosts.column import Key
from fairway.hosts.nodes.cells import in_milli_units
from fairway.hosts.nodes.node_selection import (
    NAME_FIELD,
    NodeTerm,
    RequiredNodes,
    compile_term,
    compile_terms,
    is_invalid,
    select_labels,
)
from fairway.hosts.nodes.pod_columns import (
    ANY_ADDRESS,
    HELD,
    POD_GROUP,
    TERMINATING,
    WILDCARD,
    host_port,
    pod_claim,
    pod_disk,
    scoring_requested,
)
from fairway.hosts.nodes.pod_selection import (
    AffinityTerm,
    PodQuery,
    TermKind,
    compile_affinity_term,
    labels_text,
    with_label_keys,
)
from fairway.hosts.resources import requested
from kubewire.api.selector import IN, Selector, SelectorError, compile_selector

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
class Disk:
    """A disk that several pods of a node may mount only if all of them read it."""

    kind: str
    names: tuple[str, ...]
    """Two disks of a kind are the same if they share a name: an image of Ceph has one for each of its monitors."""
    read_only: bool

    def keys(self, *, read_only: bool) -> tuple[Key, ...]:
        """Return the columns that count the volumes that mount the disk in this mode."""
        return tuple(pod_disk(self.kind, name, read_only=read_only) for name in self.names)


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
        requests = scoring_requests(self._pod)
        return {name: in_milli_units(name, requests.get(name, 0)) for name in (CPU, MEMORY)}

    @cached_property
    def incoming_scoring_requests(self) -> Mapping[str, int]:
        """What the pod counts, in milli-units, when nodes are scored for it by their free resources."""
        requests = incoming_scoring_requests(self._pod)
        return {name: in_milli_units(name, amount) for name, amount in requests.items()}

    @cached_property
    def amounts(self) -> Mapping[Key, int]:
        """What the pod adds to each column of its node."""
        amounts = {requested(name): amount for name, amount in self.requests.items()}
        for name, amount in self.scoring_requests.items():
            amounts[scoring_requested(name)] = amount
        for port in self.host_ports:
            for address in (ANY_ADDRESS, port.address):
                key = host_port(port.protocol, port.port, address)
                amounts[key] = amounts.get(key, 0) + 1
        terminating = TERMINATING if self.terminating else ""
        amounts[POD_GROUP, self.namespace, labels_text(self.labels), terminating] = 1
        for key in self.term_keys:
            amounts[key] = amounts.get(key, 0) + 1
        for claim in self.claims:
            key = pod_claim(self.namespace, claim)
            amounts[key] = amounts.get(key, 0) + 1
        for disk in self.disks:
            for key in disk.keys(read_only=disk.read_only):
                amounts[key] = amounts.get(key, 0) + 1
        return {key: amount for key, amount in amounts.items() if amount}

    @cached_property
    def held(self) -> tuple[Key, ...]:
        """The columns of ``HELD`` among the amounts."""
        return tuple(key for key in self.amounts if key[0] in HELD) if self._pod.spec.volumes else ()

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Of containers and sidecars."""
        spec = self._pod.spec
        containers = (
            *(container for container in spec.initContainers if container.restartPolicy == ALWAYS),
            *spec.containers,
        )
        return tuple(
            dict.fromkeys(
                HostPort(port.protocol or "TCP", port.hostPort, port.hostIP or WILDCARD)
                for container in containers
                for port in container.ports
                if port.hostPort > 0
            )
        )

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Images of init containers, containers and volumes, with a tag."""
        spec = self._pod.spec
        named = (
            *(container.image for container in (*spec.initContainers, *spec.containers)),
            *(volume.image.reference for volume in spec.volumes if volume.image is not None),
        )
        return tuple(map(_with_tag, named))

    def tolerates(self, taint: NodeTaint) -> bool:
        return any(toleration.tolerates(taint) for toleration in self._pod.spec.tolerations)

    @cached_property
    def claims(self) -> tuple[str, ...]:
        """Names of the PersistentVolumeClaims, those of ephemeral volumes included."""
        return _claims_of(self._pod)

    @cached_property
    def ephemeral_claims(self) -> frozenset[str]:
        """Names of the claims that are created for the pod."""
        return frozenset(
            ephemeral_claim(self._pod, volume)
            for volume in self._pod.spec.volumes
            if volume.ephemeral is not None
        )

    def owns(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether a claim was created for an ephemeral volume of the pod."""
        return any(
            owner.controller and owner.uid == self._pod.metadata.uid
            for owner in claim.metadata.ownerReferences
        )

    @property
    def name_of_owner(self) -> str:
        """Namespace and name of a pod with ephemeral volumes, which no other pod has."""
        return f"{self.namespace}/{self._pod.metadata.name}"

    @property
    def needs_resource_claims(self) -> bool:
        return bool(self._pod.spec.resourceClaims)

    @cached_property
    def disks(self) -> tuple[Disk, ...]:
        """The disks of inline volumes that not every other pod may mount as well."""
        return tuple(disk for volume in self._pod.spec.volumes if (disk := _disk_of(volume)) is not None)

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
                set(field.values)
                for field in term.matchFields
                if field.key == NAME_FIELD and field.operator == IN
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
            (preferred.weight, term)
            for preferred in terms
            if preferred.weight and (term := compile_term(preferred.preference)) is not None
        )

    @cached_property
    def has_invalid_preference(self) -> bool:
        terms = self._node_affinity.preferredDuringSchedulingIgnoredDuringExecution or ()
        return any(term.weight and is_invalid(term.preference) for term in terms)

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
            compile_affinity_term(term, namespace=self.namespace, labels=self.labels)
            for term in given.requiredDuringSchedulingIgnoredDuringExecution
        )

    def _preferred(self, given: PodAffinity | None) -> tuple[AffinityTerm, ...]:
        if given is None:
            return ()
        return tuple(
            compile_affinity_term(
                term.podAffinityTerm, namespace=self.namespace, labels=self.labels, weight=term.weight
            )
            for term in given.preferredDuringSchedulingIgnoredDuringExecution
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
            constraint.whenUnsatisfiable == SCHEDULE_ANYWAY
            for constraint in self._pod.spec.topologySpreadConstraints
        )

    def _spread(self, action: str) -> tuple[SpreadConstraint, ...]:
        return tuple(
            self._constraint(constraint)
            for constraint in self._pod.spec.topologySpreadConstraints
            if constraint.whenUnsatisfiable == action
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
    template = _templates.get(signature)
    if template is None:
        template = _templates[signature] = PodTemplate(pod, signature)
        if len(_templates) > KEPT:
            _templates.popitem(last=False)
    else:
        _templates.move_to_end(signature)
    return template


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
            [volume.image for volume in spec.volumes if volume.image is not None],
            [disk for volume in spec.volumes if (disk := _disk_of(volume)) is not None],
            # The claims of ephemeral volumes must belong to this very pod.
            meta.uid if any(volume.ephemeral is not None for volume in spec.volumes) else "",
            bool(spec.resourceClaims),
            [condition for condition in status.conditions if condition.type == RESIZE_PENDING],
            status.containerStatuses,
            status.initContainerStatuses,
            status.allocatedResources,
            status.resources,
            status.nodeAllocatableResourceClaimStatuses,
        )
    )


def _claims_of(pod: Pod) -> tuple[str, ...]:
    claims: list[str] = []
    for volume in pod.spec.volumes:
        if volume.persistentVolumeClaim is not None:
            claims.append(volume.persistentVolumeClaim.claimName)
        elif volume.ephemeral is not None:
            claims.append(ephemeral_claim(pod, volume))
    return tuple(claims)


def ephemeral_claim(pod: Pod, volume: Volume) -> str:
    return f"{pod.metadata.name}-{volume.name}"


def _disk_of(volume: Volume) -> Disk | None:
    if (disk := volume.gcePersistentDisk) is not None:
        return Disk("gce", (disk.pdName,), read_only=disk.readOnly)
    if (store := volume.awsElasticBlockStore) is not None:
        return Disk("aws", (store.volumeID,), read_only=False)  # never shared, whatever the volume states
    if (iscsi := volume.iscsi) is not None:
        return Disk("iscsi", (iscsi.iqn,), read_only=iscsi.readOnly)
    if (image := volume.rbd) is not None:
        names = tuple(f"{monitor} {image.pool} {image.image}" for monitor in sorted(set(image.monitors)))
        return Disk("rbd", names, read_only=image.readOnly)
    return None


def _with_tag(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
