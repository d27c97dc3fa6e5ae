"""Compute the requests of a pod, as Kubernetes 1.37 does.

Init containers run one after another, sidecars (init containers that are always restarted) from their turn on for as
long as the pod does. So the pod needs the most of: all containers and sidecars together, and each init container with
the sidecars declared before it. CPU, memory and huge pages that the pod as a whole asks for replace that; the overhead
of its runtime class is added at the end.

A pod that is being resized holds the largest of what its spec asks for, what the kubelet granted and what the
containers run with, until they agree; a resize that the kubelet called infeasible leaves the spec out of it.

Amounts are whole numbers: thousandths of a CPU, and bytes or pieces of everything else. Fractions of those are summed
before the sum is rounded up, as the reference does it.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from msgspec import structs

from fairway.api.pod import (
    ALWAYS,
    INFEASIBLE,
    RESIZE_PENDING,
    Container,
    ContainerStatus,
    Pod,
    PodStatus,
    Quantities,
)
from kubewire.api.annotation import QuantityText
from kubewire.api.quantity import Quantity, QuantityError

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
HUGE_PAGES_PREFIX: Final = "hugepages-"
DEFAULT_REQUESTS: Final[Mapping[str, str]] = {CPU: "100m", MEMORY: "200Mi"}
"""What a container without requests counts when nodes are scored, so that such pods spread."""

_NONE: Final[Mapping[str, str]] = {}

Amounts = dict[str, int]
"""By resource: thousandths of a CPU, bytes, pieces."""

BAD_AMOUNT: Final = "{resource}: {reason}"

_MOST: Final = 2**63 - 1
"""The reference's integers end here."""
_NANO: Final = 9
_BEYOND: Final = 10**40
"""Any amount that is larger, in billionths or thousandths of them, ends at _MOST anyway."""

_Read = Callable[[Mapping[str, QuantityText] | None], Amounts]
_Of = Callable[[Container, ContainerStatus | None, bool], Quantities | None]


class _Fraction(Exception):
    """An amount is not whole in its unit."""


def effective_requests(pod: Pod, *, missing: Mapping[str, str] = _NONE) -> Amounts:
    """Return the requests. Raise QuantityError, with the resource, for an invalid quantity.

    ``missing`` has the requests of containers that have none of a resource.
    """
    return _requests(pod, _whole, _billionths, missing)


def readable_requests(pod: Pod, *, missing: Mapping[str, str] = _NONE) -> tuple[Amounts, tuple[str, ...]]:
    """Return the requests without invalid quantities, and the errors."""
    try:
        return effective_requests(pod, missing=missing), ()
    except QuantityError:
        pass
    problems: dict[str, None] = {}

    def lenient(read: _Read) -> _Read:
        def reading(quantities: Mapping[str, QuantityText] | None) -> Amounts:
            amounts: Amounts = {}
            for name, text in (quantities or {}).items():
                try:
                    amounts |= read({name: text})
                except QuantityError as error:
                    problems[str(error)] = None
            return amounts

        return reading

    return _requests(pod, lenient(_whole), lenient(_billionths), missing), tuple(problems)


def scoring_requests(pod: Pod) -> Amounts:
    """Return what a pod on a node counts when kube-scheduler scores the node: containers without a request count a
    default one.

    If the pod as a whole has requests, only resources that no container requests get the default. Invalid quantities
    count 0.
    """
    requests, _ = readable_requests(pod)
    missing = dict(DEFAULT_REQUESTS)
    if pod.spec.resources is not None and any(map(_is_pod_level, pod.spec.resources.requests or ())):
        missing = {name: text for name, text in missing.items() if name not in requests}
    return readable_requests(pod, missing=missing)[0] if missing else requests


def incoming_scoring_requests(pod: Pod) -> Amounts:
    """Return what a pod without a node counts when kube-scheduler scores nodes for it by their free resources.

    Containers without a request count a default one, and requests of the pod as a whole do not count: the scorer of
    NodeResourcesFit skips them. Invalid quantities count 0.
    """
    spec = structs.replace(pod.spec, resources=None)
    return readable_requests(structs.replace(pod, spec=spec, status=PodStatus()), missing=DEFAULT_REQUESTS)[0]


def amounts_of(quantities: Mapping[str, QuantityText]) -> Amounts:
    """Convert a list of resources, such as a node's allocatable. Raise QuantityError."""
    try:
        return _whole(quantities)
    except _Fraction:
        return _rounded_up(_billionths(quantities))


def amount_of(resource: str, quantity: QuantityText) -> int:
    """Rounded up. Raises QuantityError."""
    return amounts_of({resource: quantity})[resource]


def _requests(pod: Pod, whole: _Read, billionths: _Read, missing: Mapping[str, str]) -> Amounts:
    try:
        return _total(pod, whole, missing)
    except _Fraction:
        return _rounded_up(_total(pod, billionths, missing))


def _total(pod: Pod, read: _Read, missing: Mapping[str, str]) -> Amounts:
    total = _of_containers(pod, read, missing)
    requests = pod.spec.resources.requests if pod.spec.resources is not None else None
    if requests and any(_is_pod_level(name) for name in requests):
        for name, amount in _of_pod(pod, requests, read).items():
            if _is_pod_level(name):
                total[name] = amount
    if pod.spec.overhead:
        _add(total, read(pod.spec.overhead))
    return total


def _of_pod(pod: Pod, asked: Quantities, read: _Read) -> Amounts:
    """Return the pod-level requests."""
    status = pod.status
    if status.resources is None:
        return read(asked)
    held = {} if _infeasible(pod) else read(asked)
    for requests in (status.resources.requests, status.allocatedResources):
        _raise(held, read(requests))
    return held


def _of_containers(pod: Pod, read: _Read, missing: Mapping[str, str]) -> Amounts:
    status = pod.status
    claimed = _claimed(pod, read) if status.nodeAllocatableResourceClaimStatuses else {}
    spec = _together(pod, _asked, read, missing)
    _add(spec, claimed)
    infeasible = _infeasible(pod)
    actuated = status.resources.requests if status.resources is not None else None
    if status.allocatedResources is not None and actuated is not None:
        # Pod-level requests include everything, also claims.
        granted, running = read(status.allocatedResources), read(actuated)
    elif infeasible or not _settled(pod):
        granted, running = _together(pod, _granted, read, missing), _together(pod, _running, read, missing)
        _add(granted, claimed)
    else:
        return spec
    total = {} if infeasible else spec
    _raise(total, running)
    _raise(total, granted)
    return total


def _settled(pod: Pod) -> bool:
    """Return whether no resize is in progress, which is the usual case; then only the spec counts."""
    status = pod.status
    if not (status.containerStatuses or status.initContainerStatuses):
        return True
    containers = (*pod.spec.containers, *pod.spec.initContainers)
    asked = {container.name: container.resources.requests for container in containers}
    if len(asked) != len(containers):
        return False
    for container_status in (*status.containerStatuses, *status.initContainerStatuses):
        requests = asked.get(container_status.name)
        if (
            container_status.allocatedResources is not None
            and container_status.allocatedResources != requests
        ):
            return False
        if container_status.resources is not None and container_status.resources.requests not in (
            None,
            requests,
        ):
            return False
    return True


def _together(pod: Pod, of: _Of, read: _Read, missing: Mapping[str, str]) -> Amounts:
    status, infeasible = pod.status, _infeasible(pod)

    def amounts(container: Container) -> Amounts:
        given = of(container, statuses.get(container.name), infeasible)
        return read({**missing, **(given or {})} if missing else given)

    statuses: dict[str, ContainerStatus] = {}
    if of is not _asked:
        for container_status in (*status.containerStatuses, *status.initContainerStatuses):
            statuses.setdefault(container_status.name, container_status)
    total: Amounts = {}
    for container in pod.spec.containers:
        _add(total, amounts(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.initContainers:
        own = amounts(container)
        if container.restartPolicy == ALWAYS:
            _add(total, own)
            _add(sidecars, own)
            _raise(peak, sidecars)
        else:
            _add(own, sidecars)
            _raise(peak, own)
    _raise(total, peak)
    return total


def _asked(container: Container, _status: ContainerStatus | None, _infeasible: bool) -> Quantities | None:
    return container.resources.requests


def _granted(container: Container, status: ContainerStatus | None, infeasible: bool) -> Quantities | None:
    if status is not None and status.allocatedResources is not None:
        return status.allocatedResources
    return None if infeasible else container.resources.requests


def _running(container: Container, status: ContainerStatus | None, infeasible: bool) -> Quantities | None:
    if status is not None and status.resources is not None and status.resources.requests is not None:
        return status.resources.requests
    return _granted(container, status, infeasible)


def _claimed(pod: Pod, read: _Read) -> Amounts:
    total: Amounts = {}
    for claim in pod.status.nodeAllocatableResourceClaimStatuses:
        _add(total, read(claim.resources))
        for resource in claim.mapping:
            if resource.quantity is not None:
                _add(total, read({resource.name: resource.quantity}))
        for extra in claim.overhead:
            if extra.perPod is not None:
                _add(total, read({extra.name: extra.perPod}))
            if extra.perContainer is not None:
                amounts = read({extra.name: extra.perContainer})
                _add(total, {name: amount * len(claim.containers) for name, amount in amounts.items()})
    return total


def _infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == RESIZE_PENDING:
            return condition.reason == INFEASIBLE
    return False


def _is_pod_level(resource: str) -> bool:
    return resource in (CPU, MEMORY) or resource.startswith(HUGE_PAGES_PREFIX)


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def _whole(quantities: Mapping[str, QuantityText] | None) -> Amounts:
    """Raises _Fraction."""
    if not quantities:
        return {}
    return {name: _in_units(name, text) for name, text in quantities.items()}


def _billionths(quantities: Mapping[str, QuantityText] | None) -> Amounts:
    """Of the unit. Quantities have nothing smaller than a billionth of one."""
    return {
        name: _parsed(name, text, _NANO + _thousandths(name)) for name, text in (quantities or {}).items()
    }


def _rounded_up(billionths: Amounts) -> Amounts:
    return {name: min(-(-amount // 10**_NANO), _MOST) for name, amount in billionths.items()}


def _thousandths(resource: str) -> int:
    return 3 if resource == CPU else 0


@lru_cache(maxsize=1 << 14)
def _in_units(resource: str, text: QuantityText) -> int:
    billionths = _parsed(resource, text, _NANO + _thousandths(resource))
    amount, rest = divmod(billionths, 10**_NANO)
    if rest:
        raise _Fraction
    return min(amount, _MOST)


def _parsed(resource: str, text: QuantityText, power: int) -> int:
    """In units of 10^-``power``."""
    try:
        quantity = Quantity.parse(text)
    except QuantityError as error:
        raise QuantityError(BAD_AMOUNT.format(resource=resource, reason=error)) from None
    return quantity.in_units(-power, most=_BEYOND)
