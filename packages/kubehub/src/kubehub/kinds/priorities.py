"""Priority classes, and the priority of pods."""

from collections.abc import Iterable
from typing import Final

from kubehub import status
from kubehub.kind import Kind
from kubehub.object_reader import ObjectReader
from kubehub.resource import Document
from kubehub.write_request import WriteRequest

CLASSES: Final = "priorityclasses.scheduling.k8s.io"
PREEMPT: Final = "PreemptLowerPriority"

UNKNOWN: Final = "no PriorityClass with name {name} was found"
SECOND_DEFAULT: Final = "PriorityClass {name} is already marked as default. Only one default can exist"
OTHER_PRIORITY: Final = (
    "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed"
    " {computed} from the given PriorityClass name"
)
OTHER_POLICY: Final = (
    "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller"
    " computed {computed} from the given PriorityClass name"
)

SYSTEM: Final[Iterable[Document]] = (
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2_000_000_000,
        "description": "For pods that the cluster needs, wherever they run.",
    },
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2_000_001_000,
        "description": "For pods that their node needs.",
    },
)
"""The default classes of every hub."""


class Priorities:
    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects

    def default(self) -> Document | None:
        """Return the class of pods that name none; of several, the one with the lowest value."""
        marked = (document for document in self._objects.documents(CLASSES) if document.get("globalDefault"))
        return min(marked, key=lambda document: int(document.get("value", 0)), default=None)

    def admit(self, pod: Document) -> None:
        """Set a new pod's priority. Raises a 403 if the pod has another than its class."""
        spec, name = pod["spec"], pod["metadata"].get("name", "")
        wanted = spec.get("priorityClassName")
        chosen = self._objects.document(CLASSES, "", wanted) if wanted else self.default()
        if chosen is None:
            if wanted:
                raise status.forbidden("", "pods", name, UNKNOWN.format(name=wanted))
            chosen = {}
        else:
            spec["priorityClassName"] = chosen["metadata"]["name"]
        value, policy = chosen.get("value", 0), chosen.get("preemptionPolicy", PREEMPT)
        if spec.setdefault("priority", value) != value:
            message = OTHER_PRIORITY.format(given=spec["priority"], computed=value)
            raise status.forbidden("", "pods", name, message)
        if spec.setdefault("preemptionPolicy", policy) != policy:
            message = OTHER_POLICY.format(given=spec["preemptionPolicy"], computed=policy)
            raise status.forbidden("", "pods", name, message)


class PriorityClass(Kind):
    has_generation = True

    def __init__(self, priorities: Priorities) -> None:
        self._priorities = priorities

    def default(self, document: Document) -> None:
        document.setdefault("preemptionPolicy", PREEMPT)

    def authorize(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        name, other = document["metadata"].get("name", ""), self._priorities.default()
        if document.get("globalDefault") and other is not None:
            known = other["metadata"]["name"]
            if old is None or known != name:
                raise status.forbidden(
                    "scheduling.k8s.io", "priorityclasses", name, SECOND_DEFAULT.format(name=known)
                )
