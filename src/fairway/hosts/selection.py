"""Evaluate selectors over the whole fleet with a few bitmap operations per requirement."""

from typing import Any

from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.column import CodeColumn
from fairway.hosts.snapshot import Snapshot
from kubewire.api.selector import DOES_NOT_EXIST, EXISTS, IN, Requirement, Selector


def select(snapshot: Snapshot[Any], selector: Selector, *, kind: str, among: Bits) -> Bits:
    """Return the rows among the given ones whose labels (``kind="label"``) or claims (``"claim"``) match."""
    if selector.nothing:
        return snapshot.none()
    bits = among
    for requirement in selector.requirements:
        bits = _narrowed(bits, snapshot.codes((kind, requirement.key)), requirement)
    return bits


def _narrowed(bits: Bits, column: CodeColumn, requirement: Requirement) -> Bits:
    if requirement.operator == EXISTS:
        return bits & ~column.bitmap(0)
    if requirement.operator == DOES_NOT_EXIST:
        return bits & column.bitmap(0)
    codes = [code for value in requirement.values if (code := column.code(value)) is not None]
    if requirement.operator == IN:
        if not codes:
            return bitmap.empty(len(bits) * bitmap.WORD)
        return bits & column.bitmap_of(codes)
    return bits & ~column.bitmap_of(codes) if codes else bits
