"""Decision groups: the chosen clusters divided into named groups and chunks of a given size."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fairway.api.placement import DecisionGroup, GroupStrategy
from fairway.engine.status import OK, Status, misconfigured
from fairway.hosts import bitmap, selection
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.hosts.snapshot import Snapshot
from kubewire.api.selector import SelectorError, compile_requirements, compile_selector

_NUMBER = re.compile(
    r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|0x([\da-f]+\.?[\da-f]*|\.[\da-f]+)p[+-]?\d+|inf|infinity|nan)",
    re.ASCII | re.IGNORECASE,
)
"""Numbers as other readers of the field parse them, with a general parser of doubles."""

FIELD = "spec.decisionStrategy.groupStrategy"
MOST_GROUPS = 1000
TOO_MANY = (
    "spec.decisionStrategy.groupStrategy.decisionGroups has {count} entries, each of which is evaluated for every "
    "chosen cluster; write at most {most}"
)
NOT_A_PERCENTAGE = "{value} invalid type: string is not a percentage"


@dataclass(frozen=True, slots=True)
class Group:
    """A group's index is its place in the division. Its name is empty for clusters of no named group."""

    name: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Division:
    """With a misconfigured ``status``, only the groups before the mistake."""

    groups: tuple[Group, ...]
    status: Status = OK


class _LengthError(ValueError):
    pass


def divide(
    snapshot: Snapshot[Any],
    clusters: Sequence[str],
    strategy: GroupStrategy,
    *,
    order: Callable[[Sequence[str]], list[str]] = sorted,
) -> Division:
    """Divide the clusters. ``order`` sorts them within the groups, and so decides which share a chunk."""
    try:
        length = group_length(strategy.clustersPerDecisionGroup, len(clusters))
    except _LengthError as error:
        return Division(groups=(), status=misconfigured(str(error), field=FIELD))
    count = len(strategy.decisionGroups)
    if count > MOST_GROUPS:
        return Division(
            groups=(), status=misconfigured(TOO_MANY.format(count=count, most=MOST_GROUPS), field=FIELD)
        )
    groups: list[Group] = []
    names, row_of = snapshot.hosts.names, snapshot.hosts.row_of
    rest = bitmap.from_rows([row_of[name] for name in clusters], snapshot.capacity)
    for named in strategy.decisionGroups:
        try:
            taken = _members(snapshot, rest, named)
        except SelectorError as error:
            return Division(groups=tuple(groups), status=misconfigured(str(error), field=FIELD))
        if taken.any():
            rest = rest & ~taken
            members = [names[row] for row in bitmap.rows_of(taken).tolist()]
            groups.extend(_chunks(named.groupName, order(members), length))
    groups.extend(_chunks("", order([names[row] for row in bitmap.rows_of(rest).tolist()]), length))
    return Division(groups=tuple(groups) or (Group(name="", clusters=()),))


def group_length(given: int | str | None, count: int) -> int:
    """Return the maximum number of clusters in a group; all of them if the given number is invalid."""
    if isinstance(given, str):
        # Doubles, because 7 % of 100 is 8 for every other reader of the field.
        share = _percentage(given) / 100.0 * float(count)
        length = math.ceil(share) if math.isfinite(share) else 0
    else:
        length = given or 0
    return count if length <= 0 or length > count else length


def _percentage(text: str) -> float:
    number = text.removesuffix("%")
    try:
        if number == text or not _NUMBER.fullmatch(number):
            raise ValueError
        share = float.fromhex(number) if "x" in number.lower() else float(number)
        if math.isinf(share) and "inf" not in number.lower():
            raise ValueError
        return share
    except ValueError:
        raise _LengthError(NOT_A_PERCENTAGE.format(value=text)) from None


def _members(snapshot: Snapshot[Any], among: Bits, group: DecisionGroup) -> Bits:
    selector = group.groupClusterSelector
    labels = compile_selector(selector.labelSelector)
    claims = compile_requirements(selector.claimSelector.matchExpressions)
    taken = selection.select(snapshot, labels, kind=cells.LABEL, among=among)
    return selection.select(snapshot, claims, kind=cells.CLAIM, among=taken)


def _chunks(name: str, clusters: list[str], length: int) -> list[Group]:
    return [
        Group(name=name, clusters=tuple(clusters[start : start + length]))
        for start in range(0, len(clusters), max(1, length))
    ]
