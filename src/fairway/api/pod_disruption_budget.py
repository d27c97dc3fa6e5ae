"""PodDisruptionBudget: how many of its pods may be evicted now."""

from msgspec import Struct, field

from kubewire.api.annotation import Int32
from kubewire.api.meta import ObjectMeta
from kubewire.api.selector import LabelSelector


class PodDisruptionBudgetSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    disruptionsAllowed: Int32 = 0
    disruptedPods: dict[str, str] = field(default_factory=dict)
    """Pods whose eviction was accepted and that are not terminating yet, with the time."""


class PodDisruptionBudget(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "policy/v1"
    kind: str = "PodDisruptionBudget"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
