"""Which nodes and which pods count."""

import re
from dataclasses import dataclass
from typing import Final, Literal

from fairway.api.node import CONTROL_PLANE_LABELS, NOT_READY_TAINTS, UNSCHEDULABLE_TAINT, NodeTaint
from fairway.providers.usage.objects import NodeRoom, PodUse

WAITING: Final = ""

ControlPlane = Literal["by-taint", "count", "ignore"]

BAD_TOLERATION: Final = (
    '{given!r} names no taint: write its key or "key=value", with ":NoSchedule" or ":NoExecute" behind it '
    "if only that is meant"
)

_SHADOWS: Final = (UNSCHEDULABLE_TAINT, *NOT_READY_TAINTS)
"""A controller puts them on nodes that are cordoned or not ready, and a moment late: the node itself says it better."""

_TOLERATION: Final = re.compile(
    r"(?P<key>[A-Za-z0-9][-A-Za-z0-9_./]*)(=(?P<value>[-A-Za-z0-9_.]*))?(:(?P<effect>NoSchedule|NoExecute))?"
)


@dataclass(frozen=True, slots=True)
class Toleration:
    """None matches everything."""

    key: str
    value: str | None = None
    effect: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Toleration":
        """Raises ValueError."""
        found = _TOLERATION.fullmatch(text)
        if found is None:
            raise ValueError(BAD_TOLERATION.format(given=text))
        return cls(found["key"], found["value"], found["effect"])

    def matches(self, taint: NodeTaint) -> bool:
        return (
            self.key == taint.key
            and self.value in (None, taint.value)
            and self.effect in (None, taint.effect)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingPolicy:
    """The default counts where an ordinary pod could be put."""

    not_ready: bool = False
    cordoned: bool = False
    tainted: bool = False
    control_plane: ControlPlane = "by-taint"
    tolerated: tuple[Toleration, ...] = ()
    terminating: bool = True
    """Whether a pod that is being deleted takes room as long as it is there, which it does."""

    def repelled(self, node: NodeRoom) -> frozenset[str] | None:
        """Keys of the taints that keep ordinary pods off the node, or None if it takes no pods at all.

        Nodes with devices are often tainted with the name of the device. Pods that ask for it tolerate that (an
        admission plugin adds it for them), so such a node has room for them and for nobody else.
        """
        if not (node.ready or self.not_ready) or (node.cordoned and not self.cordoned):
            return None
        if node.control_plane and self.control_plane == "ignore":
            return None
        if self.tainted or not node.repelling:
            return frozenset()
        return frozenset(taint.key for taint in node.repelling if not self._tolerates(taint))

    def _tolerates(self, taint: NodeTaint) -> bool:
        if taint.key in _SHADOWS:
            return True
        if taint.key in CONTROL_PLANE_LABELS and self.control_plane == "count":
            return True
        return any(each.matches(taint) for each in self.tolerated)

    def place(self, pod: PodUse) -> str | None:
        """The node it takes room on, ``WAITING`` if it wants one and has none, or None if it takes nothing."""
        if pod.over:
            return None
        if pod.terminating and not (pod.node and self.terminating):
            return None
        return WAITING if not (pod.node or pod.gated) else pod.node or None


UPSTREAM: Final = CountingPolicy(not_ready=True, tainted=True, terminating=False)
"""As OCM's add-on counts: only a cordon keeps a node out, and a pod that is being deleted is as good as gone."""
