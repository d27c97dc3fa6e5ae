"""Edits of measured values: published scores and reported amounts, changed in steps."""

from dataclasses import dataclass, replace
from typing import Any, Final, Self

from msgspec import structs

from fairway.api.amount_display import display_amount, display_change
from fairway.api.cluster import ManagedCluster
from fairway.api.score import (
    AddOnPlacementScore,
    AddOnPlacementScoreItem,
    AddOnPlacementScoreStatus,
    ManagedClusterScore,
    ManagedClusterScoreStatus,
    managed_cluster_score_name,
)
from fairway.hosts.clusters.cells import amount_of
from fairway.hosts.clusters.scores import SILENT, is_silent
from fairway.hosts.instant import Micros, to_micros
from fairway.whatif.edits import ClusterEdit, NumericEdit, SetClaim, SetLabel, Undo
from fairway.whatif.world import World
from kubewire.api.meta import ObjectMeta, format_time
from kubewire.api.quantity import quantity_float

LOWEST_SCORE: Final = -100
HIGHEST_SCORE: Final = 100
CPU: Final = "cpu"
_MILLI: Final = 1000
_MEBI: Final = 1 << 20
_GIBI: Final = 1 << 30
_COARSE_FROM: Final = 10


@dataclass(frozen=True, slots=True)
class PublishScore(NumericEdit):
    """Publishes another value of one score of an AddOnPlacementScore, one point per step.

    ``base`` is the current value; for a missing or expired score, what the placement counts for it, mostly 0.
    ``ran_out`` is the time of the expiry, ``silenced`` is true for a score that was marked silent. Publishing again
    would also renew the other scores of the object; those that the placement ranks by (``weighed``) are dropped, so
    that an edit changes one number.
    """

    preference = 9
    cluster: str
    resource: str
    score: str
    base: int
    value: int
    missing: bool = False
    ran_out: str = ""
    weighed: tuple[str, ...] = ()
    silenced: bool = False

    @property
    def target(self) -> tuple[object, ...]:
        return ("score", self.cluster, self.resource, self.score)

    @property
    def absent(self) -> bool:
        """Whether the cluster has no valid score now."""
        return self.missing or bool(self.ran_out) or self.silenced

    @property
    def steps(self) -> int:
        return abs(self.value - self.base)

    def with_steps(self, steps: int) -> Self:
        return replace(self, value=self.base + (steps if self.value >= self.base else -steps))

    def describe(self) -> str:
        name = f"score {self.resource}/{self.score}"
        if self.ran_out:
            return (
                f"publish {name} of cluster {self.cluster} again, which expired at {self.ran_out}, "
                f"as {self.value}"
            )
        if self.silenced:
            return f"publish {name} of cluster {self.cluster} again, which was marked silent, as {self.value}"
        if self.missing:
            return f"publish {name} for cluster {self.cluster}, which has none, as {self.value}"
        return _moved(name, self.cluster, self.base, self.value)

    def apply(self, world: World) -> Undo:
        snapshot = world.fleet.snapshot()
        source = snapshot.score_object(self.cluster, self.resource)
        debits = snapshot.debits.of(self.cluster)

        def put(score: AddOnPlacementScore | None) -> None:
            # A new version ends debits; the edit is one of the value alone.
            if score is None:
                world.fleet.delete_score(self.cluster, self.resource)
            else:
                world.put(score)
            for owner, deltas in debits.items():
                world.fleet.debit(owner, (self.cluster,), deltas)

        put(self.change(source))
        return lambda: put(source)

    def change(self, source: AddOnPlacementScore | None) -> AddOnPlacementScore:
        item = AddOnPlacementScoreItem(name=self.score, value=self.value)
        if source is None:
            meta = ObjectMeta(name=self.resource, namespace=self.cluster)
            return AddOnPlacementScore(metadata=meta, status=AddOnPlacementScoreStatus(scores=(item,)))
        lapsed = bool(self.ran_out) or self.silenced
        dropped = {self.score, *self.weighed} if lapsed else {self.score}
        kept = tuple(item for item in source.status.scores if item.name not in dropped)
        until = None if lapsed else source.status.validUntil
        conditions = source.status.conditions
        if lapsed:
            conditions = tuple(condition for condition in conditions if condition.type != SILENT)
        status = structs.replace(source.status, scores=(*kept, item), validUntil=until, conditions=conditions)
        return structs.replace(source, status=status)


def score_edit(
    world: World,
    cluster: str,
    resource: str,
    score: str,
    *,
    up: bool,
    now: Micros,
    weighed: tuple[str, ...],
    missing: int = 0,
    wary: bool = False,
) -> tuple[PublishScore, int]:
    """Return the edit at its bound, and the number of steps.

    ``missing`` is what a missing score counts, ``wary`` whether a silent one counts as missing.
    """
    source = world.fleet.snapshot().score_object(cluster, resource)
    value, ran_out, silenced = None, "", False
    if source is not None:
        value = next((item.value for item in reversed(source.status.scores) if item.name == score), None)
        until = source.status.validUntil
        if until is not None and to_micros(until) < now:
            ran_out = format_time(until)
        silenced = wary and not ran_out and is_silent(source)
    base = missing if value is None or ran_out or silenced else value
    bound = max(base, HIGHEST_SCORE) if up else min(base, LOWEST_SCORE)
    edit = PublishScore(
        cluster=cluster,
        resource=resource,
        score=score,
        base=base,
        value=bound,
        missing=value is None,
        ran_out=ran_out,
        weighed=weighed,
        silenced=silenced,
    )
    return edit, edit.steps


@dataclass(frozen=True, slots=True)
class PublishClusterScore(NumericEdit):
    """Publishes another ManagedClusterScore, one point per step; a missing one counts 0."""

    preference = 10
    cluster: str
    calculator: str
    base: int
    value: int
    missing: bool = False

    @property
    def target(self) -> tuple[object, ...]:
        return ("calculator", self.cluster, self.calculator.lower())

    @property
    def steps(self) -> int:
        return abs(self.value - self.base)

    def with_steps(self, steps: int) -> Self:
        return replace(self, value=self.base + (steps if self.value >= self.base else -steps))

    def describe(self) -> str:
        if self.missing:
            return (
                f"publish a ManagedClusterScore {self.calculator} for cluster {self.cluster}, "
                f"which has none, as {self.value}"
            )
        return _moved(f"ManagedClusterScore {self.calculator}", self.cluster, self.base, self.value)

    def apply(self, world: World) -> Undo:
        calculator = self.calculator.lower()
        source = world.fleet.snapshot().calculators.get(calculator, {}).get(self.cluster)
        if source is not None:
            status = structs.replace(source.status, score=self.value)
            world.put(structs.replace(source, status=status))
            return lambda: world.put(source)
        name = managed_cluster_score_name(cluster=self.cluster, calculator=calculator)
        meta = ObjectMeta(name=name, namespace=self.cluster)
        world.put(ManagedClusterScore(metadata=meta, status=ManagedClusterScoreStatus(score=self.value)))
        return lambda: world.fleet.delete_cluster_score(self.cluster, calculator)


def _moved(name: str, cluster: str, old: int, new: int) -> str:
    points = "1 point" if abs(new - old) == 1 else f"{abs(new - old):,} points"
    verb = "raise" if new > old else "lower"
    return f"{verb} {name} of cluster {cluster} by {points}, from {old} to {new}"


@dataclass(frozen=True, slots=True)
class Allocate(ClusterEdit, NumericEdit):
    """Sets another allocatable amount, and raises the capacity to at least as much.

    ``base`` and ``step`` are in thousandths of a CPU or in bytes. ``old`` is None where the cluster does not report
    the resource.
    """

    preference = 11
    resource: str
    old: str | None
    base: int
    step: int
    count: int

    @property
    def target(self) -> tuple[object, ...]:
        return ("allocatable", self.cluster, self.resource)

    @property
    def steps(self) -> int:
        return abs(self.count)

    def with_steps(self, steps: int) -> Self:
        return replace(self, count=steps if self.count >= 0 else -steps)

    @property
    def magnitude(self) -> float:
        """The relative change, so that CPU and memory are comparable."""
        return self.steps * self.step / max(self.base, self.step)

    @property
    def amount(self) -> str:
        return self._quantity(self.base + self.count * self.step)

    @property
    def unit(self) -> str:
        """Describe one step."""
        return display_amount(self.resource, self._quantity(self.step))

    def document(self) -> dict[str, Any]:
        # slots=True creates a new class, which super() without arguments does not find.
        return {**ClusterEdit.document(self), "value": self.amount}

    def _quantity(self, amount: int) -> str:
        if self.resource == CPU:
            return f"{amount}m" if amount % _MILLI else str(amount // _MILLI)
        for unit, suffix in ((_GIBI, "Gi"), (_MEBI, "Mi"), (1 << 10, "Ki")):
            if amount % unit == 0:
                return f"{amount // unit}{suffix}"
        return str(amount)

    def describe(self) -> str:
        if self.old is None:
            amount = display_amount(self.resource, self.amount)
            return f"let cluster {self.cluster} report {amount} of allocatable {self.resource}"
        old, new = display_change(self.resource, self.old, self.amount)
        return f"change allocatable {self.resource} of cluster {self.cluster} from {old} to {new}"

    def change(self, source: ManagedCluster) -> ManagedCluster:
        status = source.status
        capacity: str | int | float = self.amount
        known = amount_of(status.capacity, self.resource)
        if known is not None and known >= quantity_float(self.amount):
            capacity = status.capacity[self.resource]
        status = structs.replace(
            status,
            allocatable={**status.allocatable, self.resource: self.amount},
            capacity={**status.capacity, self.resource: capacity},
        )
        return structs.replace(source, status=status)


def allocate_edit(source: ManagedCluster, resource: str, *, up: bool, most: float) -> tuple[Allocate, int]:
    """Return the edit at its bound, and the number of steps; ``most`` is the upper bound."""
    amount = amount_of(source.status.allocatable, resource)
    reported = amount is not None and amount_of(source.status.capacity, resource) is not None
    scale = _MILLI if resource == CPU else 1
    base = round(amount * scale) if amount is not None and reported else 0
    whole = _MILLI if resource == CPU else _GIBI
    fine = whole // 10 if resource == CPU else 100 * _MEBI
    step = whole if base == 0 or base >= _COARSE_FROM * whole else fine
    upwards = up or not reported
    steps = (max(0, int(most * scale) - base) if upwards else base) // step
    edit = Allocate(
        cluster=source.metadata.name,
        resource=resource,
        old=str(source.status.allocatable[resource]) if reported else None,
        base=base,
        step=step,
        count=steps if upwards else -steps,
    )
    return edit, steps


@dataclass(frozen=True, slots=True)
class MoveLabel(ClusterEdit, NumericEdit):
    """Changes a label whose value is a whole number, by 1 per step."""

    preference = SetLabel.preference
    key: str
    base: int
    value: int

    @property
    def target(self) -> tuple[object, ...]:
        return self._edit().target

    @property
    def steps(self) -> int:
        return abs(self.value - self.base)

    def with_steps(self, steps: int) -> Self:
        return replace(self, value=self.base + (steps if self.value >= self.base else -steps))

    def describe(self) -> str:
        return self._edit().describe()

    def change(self, source: ManagedCluster) -> ManagedCluster:
        return self._edit().change(source)

    def _edit(self) -> SetLabel | SetClaim:
        return SetLabel(cluster=self.cluster, key=self.key, value=str(self.value), old=str(self.base))


@dataclass(frozen=True, slots=True)
class MoveClaim(MoveLabel):
    """Changes a claim whose value is a whole number, by 1 per step."""

    preference = SetClaim.preference

    def _edit(self) -> SetLabel | SetClaim:
        return SetClaim(cluster=self.cluster, key=self.key, value=str(self.value), old=str(self.base))
