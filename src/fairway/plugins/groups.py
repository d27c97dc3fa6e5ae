"""Decision groups: the chosen clusters divided into named groups and chunks of a given size."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairway.api.placement import DecisionGroup, GroupStrategy
from fairway.api.selector import SelectorError, compile_requirements, compile_selector
from fairway.engine.status import OK, Status, misconfigured
from fairway.fleet import cells
from fairway.fleet.snapshot import Snapshot

_NUMBER = re.compile(
    r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|0x([\da-f]+\.?[\da-f]*|\.[\da-f]+)p[+-]?\d+|inf|infinity|nan)",
    re.ASCII | re.IGNORECASE,
)
"""What other readers of the same field take for a number; theirs is a general parser of doubles."""

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
    snapshot: Snapshot,
    clusters: Sequence[str],
    strategy: GroupStrategy,
    *,
    order: Callable[[Sequence[str]], list[str]] = sorted,
) -> Division:
    """``order`` decides the order of the clusters within the groups, and so which share a chunk."""
    try:
        length = group_length(strategy.clustersPerDecisionGroup, len(clusters))
    except _LengthError as error:
        return Division(groups=(), status=misconfigured(str(error)))
    groups: list[Group] = []
    rest = list(clusters)
    for named in strategy.decisionGroups:
        try:
            taken = _members(snapshot, rest, named)
        except SelectorError as error:
            return Division(groups=tuple(groups), status=misconfigured(str(error)))
        members = set(taken)
        rest = [cluster for cluster in rest if cluster not in members]
        groups.extend(_chunks(named.groupName, order(taken), length))
    groups.extend(_chunks("", order(rest), length))
    return Division(groups=tuple(groups) or (Group(name="", clusters=()),))


def group_length(given: int | str | None, count: int) -> int:
    """The most clusters in one group; all of them when the number given is none that divides them."""
    if isinstance(given, str):
        # Doubles on purpose: 7 % of 100 is 8 for every other reader of the same field.
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


def _members(snapshot: Snapshot, clusters: Sequence[str], group: DecisionGroup) -> list[str]:
    selector = group.groupClusterSelector
    labels = compile_selector(selector.labelSelector)
    claims = compile_requirements(selector.claimSelector.matchExpressions)
    members: list[str] = []
    for name in clusters:
        cluster = snapshot.cluster(snapshot.hosts.row_of[name])
        if labels.matches(cluster.metadata.labels) and (
            not claims.requirements or claims.matches(cells.claims_of(cluster))
        ):
            members.append(name)
    return members


def _chunks(name: str, clusters: list[str], length: int) -> list[Group]:
    return [
        Group(name=name, clusters=tuple(clusters[start : start + length]))
        for start in range(0, len(clusters), max(1, length))
    ]
