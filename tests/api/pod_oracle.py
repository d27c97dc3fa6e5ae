"""An independent implementation of a pod's effective requests, per resource and with fractions."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from kubewire.api.quantity import Quantity

Document = Mapping[str, Any]
NOTHING = Fraction(0)


def requests_of(pod: Document) -> dict[str, int]:
    """Omits resources whose request is zero."""
    amounts = {name: _request(pod, name) for name in _named(pod)}
    rounded = {name: math.ceil(amount * (1000 if name == "cpu" else 1)) for name, amount in amounts.items()}
    return {name: amount for name, amount in rounded.items() if amount}


def _named(value: Any) -> set[str]:
    """All keys and names of the document, which include all resources."""
    if isinstance(value, Mapping):
        return set(value).union(*map(_named, value.values()), {str(value.get("name", ""))})
    return set().union(*map(_named, value)) if isinstance(value, list) else set()


def _of(quantities: Document | None, name: str) -> Fraction | None:
    text = (quantities or {}).get(name)
    if text is None:
        return None
    quantity = Quantity.parse(text)
    return Fraction(quantity.digits) * Fraction(10) ** quantity.power


def _request(pod: Document, name: str) -> Fraction:
    spec, status = pod.get("spec", {}), pod.get("status", {})
    total = _containers(pod, name)
    whole = spec.get("resources", {}).get("requests", {})
    if any(_at_pod_level(resource) for resource in whole) and _at_pod_level(name):
        has_status = "resources" in status
        reported = (
            [status["resources"].get("requests"), status.get("allocatedResources")] if has_status else []
        )
        held = [amount for requests in reported if (amount := _of(requests, name)) is not None]
        asked = None if has_status and _infeasible(status) else _of(whole, name)
        if asked is not None:
            held.append(asked)
        if held:
            total = max(held)
    return total + (_of(spec.get("overhead"), name) or NOTHING)


def _containers(pod: Document, name: str) -> Fraction:
    status = pod.get("status", {})
    infeasible = _infeasible(status)
    statuses: dict[str, Document] = {}
    for container_status in [
        *status.get("initContainerStatuses", [])[::-1],
        *status.get("containerStatuses", [])[::-1],
    ]:
        statuses[container_status["name"]] = container_status

    def spec(container: Document) -> Fraction:
        return _of(container.get("resources", {}).get("requests"), name) or NOTHING

    def granted(container: Document) -> Fraction:
        status = statuses.get(container["name"], {})
        if "allocatedResources" in status:
            return _of(status["allocatedResources"], name) or NOTHING
        return NOTHING if infeasible else spec(container)

    def running(container: Document) -> Fraction:
        status = statuses.get(container["name"], {})
        if "requests" in status.get("resources", {}):
            return _of(status["resources"]["requests"], name) or NOTHING
        return granted(container)

    claimed = _claimed(status, name)
    candidates = [] if infeasible else [_peak(pod, spec) + claimed]
    if "allocatedResources" in status and "requests" in status.get("resources", {}):
        candidates += [_of(status["allocatedResources"], name) or NOTHING]
        candidates += [_of(status["resources"]["requests"], name) or NOTHING]
    else:
        candidates += [_peak(pod, granted) + claimed, _peak(pod, running)]
    return max(candidates)


def _peak(pod: Document, of: Callable[[Document], Fraction]) -> Fraction:
    """The maximum over time: during each init container, and afterwards."""
    spec = pod.get("spec", {})
    moments = []
    sidecars = NOTHING
    for container in spec.get("initContainers", []):
        moments.append(sidecars + of(container))
        if container.get("restartPolicy") == "Always":
            sidecars += of(container)
    moments.append(sidecars + sum((of(container) for container in spec.get("containers", [])), NOTHING))
    return max(moments)


def _claimed(status: Document, name: str) -> Fraction:
    total = NOTHING
    for claim in status.get("nodeAllocatableResourceClaimStatuses", []):
        total += _of(claim.get("resources"), name) or NOTHING
        for resource in claim.get("mapping", []):
            total += _of({resource["name"]: resource.get("quantity")}, name) or NOTHING
        for resource in claim.get("overhead", []):
            total += _of({resource["name"]: resource.get("perPod")}, name) or NOTHING
            share = _of({resource["name"]: resource.get("perContainer")}, name) or NOTHING
            total += share * len(claim.get("containers", []))
    return total


def _infeasible(status: Document) -> bool:
    reasons = [
        condition.get("reason")
        for condition in status.get("conditions", [])
        if condition["type"] == "PodResizePending"
    ]
    return reasons[:1] == ["Infeasible"]


def _at_pod_level(name: str) -> bool:
    return name in {"cpu", "memory"} or name.startswith("hugepages-")
