"""Loops of the macros, charged like the steps of their expansion.

The accumulator may be a failure without an end of the loop; its initial list is created, and charged, at its first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubecel.attributes import format_key, lookup
from kubecel.containers import LISTS, MAPS, CelMap, List, length
from kubecel.cost import CREATE_LIST
from kubecel.errors import NO_SUCH_OVERLOAD, Failure
from kubecel.frame import Frame, Step, charge_call, charge_units, charge_work, walk
from kubecel.values import type_of_value


class Unset:
    """Value of a lazily bound variable before its first use."""

    __slots__ = ()


UNSET: Final = Unset()


def _iterate(frame: Frame, value: object) -> List | Sequence[object]:
    if isinstance(value, LISTS):
        return value
    if isinstance(value, MAPS):
        charge_work(frame, len(value) >> 4)
        keys: Sequence[object] = list(value)
        return keys if frame.order is None else frame.order(keys)
    raise Failure(f"got '{type_of_value(value).name}', expected iterable type")


def compile_all(over: Step, slot: int, predicate: Step) -> Step:
    def fold(frame: Frame) -> object:
        failure: Failure | None = None
        holds = True
        for item in _iterate(frame, over(frame)):
            if not holds:
                charge_units(frame, 2)
                break
            charge_units(frame, 3)
            frame.slots[slot] = item
            try:
                value = predicate(frame)
            except Failure as error:
                failure = failure or error
                continue
            if value is False:
                holds = False
            elif value is not True:
                failure = failure or Failure(NO_SUCH_OVERLOAD)
        charge_units(frame, 1)
        if holds and failure is not None:
            raise failure
        return holds

    return fold


def compile_exists(over: Step, slot: int, predicate: Step) -> Step:
    def fold(frame: Frame) -> object:
        failure: Failure | None = None
        exists = False
        for item in _iterate(frame, over(frame)):
            if exists:
                charge_units(frame, 3)
                break
            charge_units(frame, 4)
            frame.slots[slot] = item
            try:
                value = predicate(frame)
            except Failure as error:
                failure = failure or error
                continue
            if value is True:
                exists = True
            elif value is not False:
                failure = failure or Failure(NO_SUCH_OVERLOAD)
        charge_units(frame, 1)
        if not exists and failure is not None:
            raise failure
        return exists

    return fold


def compile_exists_one(over: Step, slot: int, predicate: Step) -> Step:
    def fold(frame: Frame) -> object:
        failure: Failure | None = None
        count = 0
        for item in _iterate(frame, over(frame)):
            charge_work(frame, 1)
            frame.slots[slot] = item
            try:
                value = predicate(frame)
            except Failure as error:
                failure = error
                continue
            if value is True:
                charge_units(frame, 2)
                count += 1
            elif value is not False:
                failure = Failure(NO_SUCH_OVERLOAD)
        charge_units(frame, 2)
        if failure is not None:
            raise failure
        return count == 1

    return fold


def compile_map(over: Step, slot: int, transform: Step) -> Step:
    def fold(frame: Frame) -> object:
        failure: Failure | None = None
        out: list[object] = []
        list_created = False
        for item in _iterate(frame, over(frame)):
            frame.slots[slot] = item
            if not list_created:
                charge_call(frame, CREATE_LIST, 1)
                list_created = True
            charge_units(frame, 1)
            try:
                value = transform(frame)
            except Failure as error:
                failure = failure or error
            else:
                out.append(value)
            charge_call(frame, CREATE_LIST, 1)
            charge_units(frame, 1)
        if not list_created:
            charge_call(frame, CREATE_LIST, 1)
        charge_units(frame, 1)
        if failure is not None:
            raise failure
        return out

    return fold


def compile_filter(over: Step, slot: int, predicate: Step, transform: Step) -> Step:
    def fold(frame: Frame) -> object:
        failure: Failure | None = None
        out: list[object] = []
        list_created = False
        for item in _iterate(frame, over(frame)):
            charge_work(frame, 1)
            frame.slots[slot] = item
            try:
                value = predicate(frame)
                if value is not True and value is not False:
                    raise Failure(NO_SUCH_OVERLOAD)
            except Failure as error:
                # The failure replaces the accumulator, so no list is created.
                failure = error
                list_created = True
                continue
            if not list_created:
                charge_call(frame, CREATE_LIST, 1)
                list_created = True
            if value is False:
                continue
            charge_units(frame, 1)
            try:
                element = transform(frame)
            except Failure as error:
                failure = failure or error
            else:
                out.append(element)
            charge_call(frame, CREATE_LIST, 1)
            charge_units(frame, 1)
        if not list_created:
            charge_call(frame, CREATE_LIST, 1)
        charge_units(frame, 1)
        if failure is not None:
            raise failure
        return out

    return fold


def compile_bind(over: Step, slot: int, body: Step) -> Step:
    def bind(frame: Frame) -> object:
        over(frame)
        frame.slots[slot] = UNSET
        return body(frame)

    return bind


def compile_bound(slot: int, init: Step) -> Step:
    """Compile the use of a lazily bound variable, which keeps a failure like a value."""

    def read(frame: Frame) -> object:
        value = frame.slots[slot]
        if value is UNSET:
            try:
                value = init(frame)
            except Failure as error:
                # Kept like a value: a failing initialiser would otherwise run, and be charged, at every use.
                value = error
            frame.slots[slot] = value
        if isinstance(value, Failure):
            raise value
        return value

    return read


def compile_pairs(over: Step) -> Step:
    """Compile the iteration over pairs: index and element, or key and value."""

    def pairs(frame: Frame) -> object:
        value = over(frame)
        if isinstance(value, LISTS):
            return list(enumerate(walk(frame, value, length(value))))
        keys = _iterate(frame, value)
        return [(key, lookup(value, key)) for key in walk(frame, keys, len(keys), 3)]

    return pairs


def compile_unpacked(slot: int, first: int, second: int, body: Step) -> Step:
    def unpacked(frame: Frame) -> object:
        pair = frame.slots[slot]
        assert isinstance(pair, tuple)
        frame.slots[first], frame.slots[second] = pair
        return body(frame)

    return unpacked


def compile_transform_map(
    over: Step, slot: int, predicate: Step | None, key: Step | None, value: Step
) -> Step:
    """Compile ``transformMap``; without ``key``, the value is a map whose entries are added."""

    def fold(frame: Frame) -> object:
        failure: Failure | None = None
        out = CelMap()
        for item in _iterate(frame, over(frame)):
            frame.slots[slot] = item
            charge_units(frame, 2)
            charge_work(frame, 4)
            try:
                if predicate is not None and not _truth(predicate(frame)):
                    continue
                result = value(frame)
                entries = [(key(frame), result)] if key is not None else _entries(frame, result)
                for name, entry in entries:
                    if out.find(name)[1]:
                        raise Failure(f"insert failed: key {format_key(name)} already exists")
                    out.put(name, entry)
            except Failure as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return dict(out.items()) if _named(out) else out

    return fold


def _truth(value: object) -> bool:
    if value is True or value is False:
        return value
    raise Failure(NO_SUCH_OVERLOAD)


def _entries(frame: Frame, value: object) -> list[tuple[object, object]]:
    if isinstance(value, MAPS):
        charge_work(frame, 4 * len(value))
        return list(value.items())
    raise Failure(NO_SUCH_OVERLOAD)


def _named(made: CelMap) -> bool:
    return all(type(name) is str for name in made)
