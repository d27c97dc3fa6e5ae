"""VirtualMachineAutoscaling: places pods on nodes whose virtual machines grow and shrink.

Room is what the machines' ledger can grant (see ``LedgerColumns``): permits count beyond the requests of their pods,
overcommitted machines count less, and earmarked room belongs only to its beneficiary. Scores follow a
curve of usage: nodes are filled up to a peak, and avoided beyond it. The target of a migration stays below the
watermark, and prefers the node that keeps room for it.

If no node is left, a pod may take earmarked room of machines with a lower priority, where the settings allow it
(``preemptEarmarks``): PostFilter plans that, and the controller nominates the pod and closes the earmarks.

Filter and Reserve read the same ledger, so that no node passes the filter and is refused at Reserve.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from fairway.api.pod import NEVER
from fairway.api.pod_requests import CPU, MEMORY
from fairway.engine.ledger import Earmark, HostAccount, Ledger
from fairway.engine.outcome import Outcome
from fairway.engine.points import (
    NOMINATION,
    CommitContext,
    Context,
    CycleWorkload,
    Nomination,
    Raw,
    Reads,
    Timeless,
)
from fairway.engine.status import OK, SKIPPED, Code, Status, unschedulable
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.nodes.hypothesis import HypotheticalSnapshot
from fairway.hosts.nodes.pod_template import PodInfo
from fairway.hosts.resources import allocatable, earmarked, grantable
from fairway.workloads.pods.plugins.normalizing import HIGHEST
from fairway.workloads.pods.workload import info_of_workload, nodes_of

NAME: Final = "VirtualMachineAutoscaling"
DEFAULT_RESOURCES: Final = (CPU, MEMORY)

INSUFFICIENT: Final = "Insufficient {resource} beside the permits of virtual machines"
KEPT: Final = "{resource} is kept for {beneficiary} by {owner}"
ABOVE_WATERMARK: Final = "migration would lift {resource} above the watermark"
BAD_SHARE: Final = "{field} must be a number from 0 to 1; got {given!r}"
BAD_WATERMARK: Final = "watermark must be a number greater than 0, and at most 1; got {given!r}"
UNKNOWN_SETTING: Final = "scoring has no setting {given!r}; known settings are {known}"
NO_RESOURCES: Final = "resources must name at least one resource"

_SHARES: Final[Mapping[str, float]] = {"minUsageScore": 0.5, "maxUsageScore": 0.0, "scorePeak": 0.8}

TAKES: Final = "room on {node} that is kept for {beneficiaries} will be taken"

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EarmarkPreemption:
    """A plan: close these earmarks, and the pod will fit on the node."""

    node: str
    earmarks: tuple[Earmark, ...]

    @property
    def beneficiaries(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(earmark.beneficiary) for earmark in self.earmarks))

    @staticmethod
    def of(outcome: Outcome) -> "EarmarkPreemption | None":
        """Return the plan of a cycle; None if there is none."""
        nomination = outcome.context.state.find(NOMINATION, Nomination)
        return (
            nomination.plan
            if nomination is not None and isinstance(nomination.plan, EarmarkPreemption)
            else None
        )


class MachineRoom(Protocol):
    """What the plugin asks the state of the machines."""

    @property
    def ledger(self) -> Ledger: ...

    def amounts_of(self, info: PodInfo, /) -> ResourceList:
        """Return what a pod counts on a node: the size of its virtual machine, or its requests."""

    def objection(self, info: PodInfo, /) -> str | None:
        """Return why a pod cannot be placed on any node now; None if it can."""

    def is_target(self, namespace: str, name: str, /) -> bool:
        """Return whether the pod is the target of a migration."""

    def target_rejection(self, namespace: str, name: str, host: HostKey, /) -> str | None:
        """Return why the target pod of a migration must not be bound to a node; None for other pods and nodes."""

    def preemptible(self, info: PodInfo, host: HostKey, /) -> Sequence[Earmark]:
        """Return the earmarks on a node whose room a pod may take."""

    def assume(self, key: WorkloadKey, host: HostKey, amounts: ResourceList, /) -> str | None:
        """Book a pod on a node before it is bound there. Return why that is refused."""

    def forget(self, key: WorkloadKey, /) -> None:
        """Give back what ``assume`` booked, unless the pod was bound."""


class UsageCurve:
    """The score of a share in use: ``low`` if nothing is used, 1 at the peak, ``high`` if everything is."""

    def __init__(self, *, low: float, high: float, peak: float) -> None:
        self.low, self.high, self.peak = low, high, peak

    def at(self, share: float) -> float:
        if share < self.peak:
            return self.low + (1 - self.low) * share / self.peak
        if share > self.peak:
            return self.high + (1 - self.high) * (1 - share) / (1 - self.peak)
        return 1.0

    def at_all(self, shares: Shares) -> Shares:
        rising = self.low + (1 - self.low) * shares / (self.peak or 1.0)
        falling = self.high + (1 - self.high) * (1 - shares) / ((1 - self.peak) or 1.0)
        return np.where(shares < self.peak, rising, np.where(shares > self.peak, falling, 1.0))

    def __repr__(self) -> str:
        return f"UsageCurve(low={self.low}, high={self.high}, peak={self.peak})"


class VirtualMachineAutoscaling(Timeless):
    """Without ``room`` there are no machines, and the plugin is skipped.

    ``scoring`` has the settings of the curve: minUsageScore, maxUsageScore and scorePeak, each from 0 to 1.
    ``migration`` is for the controller, which checks it (``fairway.workloads.machines.settings``).
    """

    name = NAME

    def __init__(
        self,
        *,
        room: MachineRoom | None = None,
        resources: Sequence[str] = DEFAULT_RESOURCES,
        watermark: float = 0.9,
        scoring: Mapping[str, float] | None = None,
        migration: Mapping[str, Any] | None = None,
    ) -> None:
        del migration
        if not resources:
            raise ValueError(NO_RESOURCES)
        if not _is_number(watermark) or not 0 < watermark <= 1:
            raise ValueError(BAD_WATERMARK.format(given=watermark))
        self._room = room
        self._resources = tuple(resources)
        self._watermark = round(watermark * 1000)
        """In thousandths."""
        self._curve = _curve(scoring or {})

    # Filter

    def pre_filter(self, _context: Context, /) -> tuple[Status, Bits | None]:
        return (SKIPPED if self._room is None else OK), None

    def admits(self, _context: Context, _row: int, /) -> Status:
        return OK

    def filter(self, context: Context, row: int, /) -> Status:
        room = self._room
        if room is None:
            return OK
        info = info_of_workload(context.workload)
        objection = room.objection(info)
        if objection is not None:
            return Status(Code.UNSCHEDULABLE, (objection,), plugin=NAME)
        node = nodes_of(context).host(row)
        host = HostKey.of(node.metadata)
        rejection = room.target_rejection(info.pod.metadata.namespace, info.pod.metadata.name, host)
        if rejection is not None:
            return Status(Code.UNRESOLVABLE, (rejection,), plugin=NAME)
        left, own = self._left(context, row)
        asked = self._asked(info)
        short = [
            resource
            for resource, amount in asked.items()
            if amount > left.get(resource, 0) + own.get(resource, 0)
        ]
        if short:
            return Status(
                Code.UNSCHEDULABLE, lambda: _reasons(room.ledger, host.name, _key(info), short), plugin=NAME
            )
        above = self._above(context, info, row, left, own)
        if above:
            reasons = tuple(ABOVE_WATERMARK.format(resource=resource) for resource in above)
            return Status(Code.UNSCHEDULABLE, reasons, plugin=NAME)
        return OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        if self._room is None:
            return OK, candidates
        info, snapshot = info_of_workload(context.workload), context.snapshot
        meta = info.pod.metadata
        if self._room.objection(info) is not None:
            return OK, snapshot.none()
        passed = candidates
        if self._room.is_target(meta.namespace, meta.name):
            # Rare, and each node has its own answer.
            passed = candidates.copy()
            for row in bitmap.rows_of(candidates).tolist():
                bitmap.put(passed, row, not self.filter(context, row).rejects)
            return OK, passed
        for resource, asked in self._asked(info).items():
            passed = passed & bitmap.pack(snapshot.counts(grantable(resource)).values >= asked)
        for row in self._special(context, info):
            if bitmap.test(candidates, row):
                passed = passed if passed is not candidates else candidates.copy()
                bitmap.put(passed, row, not self.filter(context, row).rejects)
        return OK, passed

    def _asked(self, info: PodInfo) -> dict[str, int]:
        assert self._room is not None
        amounts = self._room.amounts_of(info)
        return {resource: amounts[resource] for resource in self._resources if amounts.get(resource)}

    def _left(self, context: Context, row: int) -> tuple[dict[str, int], ResourceList]:
        """Return what a node has left for everyone, and what it keeps for this pod."""
        assert self._room is not None
        snapshot, key = nodes_of(context), _key(info_of_workload(context.workload))
        name = snapshot.hosts.names[row]
        if isinstance(snapshot, HypotheticalSnapshot) and name in snapshot.changed:
            account = self._supposed(snapshot, name)
            if account is None:
                return {}, {}
            return account.free(), account.kept_room(key)
        left = {
            resource: snapshot.counts(grantable(resource)).values.item(row) for resource in self._resources
        }
        account = self._room.ledger.account_named(name)
        return left, {} if account is None else account.kept_room(key)

    def _supposed(self, snapshot: HypotheticalSnapshot, name: str) -> HostAccount | None:
        """Return the account of a node as it would be with the pods of a what-if."""
        assert self._room is not None
        account = self._room.ledger.account_named(name)
        if account is None:
            return None
        removed, new = snapshot.differences(name)
        for info in removed:
            account = account.observe(_key(info), None).release(_key(info))
        for info in new:
            # Room that is kept for the pod is what it takes.
            for earmark in [one for one in account.earmarks.values() if one.beneficiary == _key(info)]:
                account = account.close(earmark.id)
            account = account.observe(_key(info), self._room.amounts_of(info))
        return account

    def _special(self, context: Context, info: PodInfo) -> set[int]:
        """Return the rows whose room is not what the columns say: it is kept for this pod, or supposed."""
        assert self._room is not None
        snapshot = nodes_of(context)
        names = {host.name for host in self._room.ledger.earmarked_for(_key(info))}
        if isinstance(snapshot, HypotheticalSnapshot):
            names |= snapshot.changed
        row_of = snapshot.hosts.row_of
        return {row_of[name] for name in names if name in row_of}

    def _above(
        self, context: Context, info: PodInfo, row: int, left: ResourceList, own: ResourceList
    ) -> list[str]:
        """Return the resources of which the target of a migration would lift a node above the watermark."""
        assert self._room is not None
        meta, asked = info.pod.metadata, self._asked(info)
        if not self._room.is_target(meta.namespace, meta.name) or _covers(own, asked):
            return []
        above: list[str] = []
        for resource, amount in asked.items():
            have = context.snapshot.counts(allocatable(resource)).values.item(row)
            if have - left.get(resource, 0) + amount > have * self._watermark // 1000:
                above.append(resource)
        return above

    # PostFilter

    def post_filter(self, context: Context, rejections: Mapping[int, Status], /) -> Status:
        """Plan to take earmarked room, where the fewest earmarks and then the least room are taken."""
        info, snapshot = info_of_workload(context.workload), nodes_of(context)
        if self._room is None or info.pod.spec.preemptionPolicy == NEVER:
            return SKIPPED
        plans: list[tuple[int, int, str, int, EarmarkPreemption]] = []
        for account in self._room.ledger.with_earmarks():
            row = snapshot.hosts.row_of.get(account.host.name)
            status = None if row is None else rejections.get(row)
            if (
                row is None
                or status is None
                or status.plugin != NAME
                or status.code is not Code.UNSCHEDULABLE
            ):
                continue
            taken = self._taken(context, row, info, account)
            if taken:
                amounts = sum(earmark.amounts.get(CPU, 0) for earmark in taken)
                plan = EarmarkPreemption(account.host.name, taken)
                plans.append((len(taken), amounts, plan.node, row, plan))
        if not plans:
            return SKIPPED
        *_, row, best = min(plans, key=lambda ranked: ranked[:3])
        context.state.write(NOMINATION, Nomination(rows=(row,), plan=best))
        words = TAKES.format(node=best.node, beneficiaries=", ".join(best.beneficiaries))
        return Status(Code.SUCCESS, (words,), plugin=NAME)

    def _taken(self, context: Context, row: int, info: PodInfo, account: HostAccount) -> tuple[Earmark, ...]:
        """Return the earmarks whose room lets a pod fit on a node, the largest first; none if that is not enough."""
        assert self._room is not None
        left, own = self._left(context, row)
        asked, room = (
            self._asked(info),
            {resource: left.get(resource, 0) + own.get(resource, 0) for resource in self._resources},
        )
        taken: list[Earmark] = []
        preemptible = self._room.preemptible(info, account.host)
        for earmark in sorted(preemptible, key=lambda earmark: (-earmark.amounts.get(CPU, 0), earmark.id)):
            if _covers(room, asked):
                break
            room = {resource: amount + earmark.amounts.get(resource, 0) for resource, amount in room.items()}
            taken.append(earmark)
        return tuple(taken) if taken and _covers(room, asked) else ()

    # Score

    def pre_score(self, _context: Context, _rows: Rows, /) -> Status:
        return SKIPPED if self._room is None else OK

    def score(self, context: Context, row: int, /) -> int:
        if self._room is None:
            return 0
        asked = self._asked(info_of_workload(context.workload))
        left, own = self._left(context, row)
        if own and _covers(own, asked):
            return HIGHEST
        lowest = 1.0
        for resource, largest in self._largest(context):
            have = context.snapshot.counts(allocatable(resource)).values.item(row)
            used = have - left.get(resource, 0) - own.get(resource, 0) + asked.get(resource, 0)
            if not have or used > have:
                return 0
            lowest = min(lowest, self._curve.at(max(0, used) / have) * (have / largest))
        return int(lowest * HIGHEST)

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        if self._room is None:
            return Raw(np.zeros(len(rows), dtype=np.int64))
        info, snapshot = info_of_workload(context.workload), context.snapshot
        asked = self._asked(info)
        lowest = np.ones(len(rows))
        for resource, largest in self._largest(context):
            have = snapshot.counts(allocatable(resource)).values[rows]
            used = have - snapshot.counts(grantable(resource)).values[rows] + asked.get(resource, 0)
            fits = (have > 0) & (used <= have)
            some = np.maximum(have, 1)
            shares = self._curve.at_all(np.maximum(used, 0) / some) * (have / largest)
            lowest = np.where(fits, np.minimum(lowest, shares), 0.0)
        scores = (lowest * HIGHEST).astype(np.int64)
        special = self._special(context, info)
        if special:
            for at, row in enumerate(rows.tolist()):
                if row in special:
                    scores[at] = self.score(context, row)
        return Raw(scores)

    def _largest(self, context: Context) -> list[tuple[str, int]]:
        """Return the resources that nodes have, and how much the largest node has."""
        largest = (
            (resource, context.snapshot.counts(allocatable(resource)).values.max())
            for resource in self._resources
        )
        return [(resource, int(most)) for resource, most in largest if most > 0]

    # Reserve

    def reserve(self, context: CommitContext, /) -> Status:
        if self._room is None:
            return OK
        info = info_of_workload(context.workload)
        refused = self._room.assume(context.workload.key, context.hosts[0], self._asked(info))
        return OK if refused is None else unschedulable(refused, plugin=NAME)

    def unreserve(self, context: CommitContext, /) -> None:
        if self._room is not None:
            self._room.forget(context.workload.key)

    def releases(self, _context: CommitContext, /) -> Mapping[Key, Direction]:
        return {}  # the columns of the ledger report their changes

    def commit_reads(self, _context: CommitContext, /) -> Reads:
        return self._reads()

    # Dependencies

    def reads(self, _context: Context, /) -> Reads:
        return self._reads()

    def _reads(self) -> Reads:
        helps: dict[Key, Direction] = {}
        for resource in self._resources:
            helps |= {grantable(resource): Direction.UP, earmarked(resource): Direction.UP}
            helps[allocatable(resource)] = Direction.UP
        return Reads(cells=frozenset(helps), helps=helps)

    def basis(self, context: Context, /) -> object:
        return tuple(self._largest(context))

    def signature(self, workload: CycleWorkload, /) -> Hashable | None:
        """What the pod counts, and the room that is kept for it. Targets of migrations are never alike."""
        if self._room is None:
            return ()
        info = info_of_workload(workload)
        key = _key(info)
        if self._room.is_target(key.namespace, key.name) or self._room.objection(info) is not None:
            return None
        kept = self._room.ledger.earmarked_for(key)
        rooms = frozenset((host, frozenset(room.items())) for host, room in kept.items())
        return frozenset(self._asked(info).items()), rooms

    def __repr__(self) -> str:
        settings = (self._resources, self._watermark, self._curve)
        return f"{NAME}{settings}"


def _key(info: PodInfo) -> WorkloadKey:
    meta = info.pod.metadata
    return WorkloadKey.of(meta)


def _covers(own: ResourceList, asked: ResourceList) -> bool:
    return all(own.get(resource, 0) >= amount for resource, amount in asked.items())


def _reasons(ledger: Ledger, host: str, who: WorkloadKey, short: Sequence[str]) -> tuple[str, ...]:
    """Return a reason for each resource that is short; it names the earmarks that keep it."""
    account = ledger.account_named(host)
    reasons: list[str] = []
    for resource in short:
        kept = (
            []
            if account is None
            else [earmark for earmark in account.kept(who) if earmark.amounts.get(resource)]
        )
        if kept:
            reasons += (
                KEPT.format(
                    resource=resource, beneficiary=earmark.beneficiary, owner=earmark.id.split("/")[0]
                )
                for earmark in kept
            )
        else:
            reasons.append(INSUFFICIENT.format(resource=resource))
    return tuple(dict.fromkeys(reasons))


def _curve(given: Mapping[str, Any]) -> UsageCurve:
    """Create the curve from settings. Raise ValueError."""
    for name, value in given.items():
        if name not in _SHARES:
            raise ValueError(UNKNOWN_SETTING.format(given=name, known=", ".join(_SHARES)))
        if not _is_number(value) or not 0 <= value <= 1:
            raise ValueError(BAD_SHARE.format(field=f"scoring.{name}", given=value))
    settings = {**_SHARES, **given}
    return UsageCurve(
        low=settings["minUsageScore"], high=settings["maxUsageScore"], peak=settings["scorePeak"]
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
