"""Evaluate selectors over the whole fleet with a few bitmap operations per requirement."""

from typing import Any

from fairway.api.selector import DOES_NOT_EXIST, EXISTS, IN, Requirement, Selector
from fairway.fleet import bitmap
from fairway.fleet.bitmap import Bits
from fairway.fleet.column import CodeColumn
from fairway.fleet.snapshot import Snapshot


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
