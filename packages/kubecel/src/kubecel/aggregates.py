"""Literals of lists and maps."""

from __future__ import annotations

from kubecel.containers import CelMap
from kubecel.cost import CREATE_LIST, CREATE_MAP
from kubecel.errors import Abort, Failure
from kubecel.frame import Frame, Step, charge_call
from kubecel.values import Optional


def compile_constant_list(values: list[object]) -> Step:
    def evaluate(frame: Frame) -> object:
        charge_call(frame, CREATE_LIST, 1)
        return values

    return evaluate


def compile_list(steps: list[Step], optional: frozenset[int]) -> Step:
    work = 2 + len(steps) // 2

    def evaluate(frame: Frame) -> object:
        out: list[object] = []
        try:
            for index, step in enumerate(steps):
                value = step(frame)
                if index in optional:
                    if not isinstance(value, Optional):
                        raise Failure("cannot initialize optional list element from non-optional value")
                    if not value.present:
                        continue
                    value = value.value
                out.append(value)
        except Failure:
            charge_call(frame, CREATE_LIST, work)
            raise
        charge_call(frame, CREATE_LIST, work)
        return out

    return evaluate


def compile_map_literal(steps: list[tuple[Step, Step, bool]]) -> Step:
    work = 4 + 3 * len(steps)

    def evaluate(frame: Frame) -> object:
        entries: list[tuple[object, object, bool]] = []
        try:
            for key_step, value_step, optional in steps:
                key = key_step(frame)
                value = value_step(frame)
                present = True
                if optional:
                    if not isinstance(value, Optional):
                        raise Failure("cannot initialize optional entry from non-optional value")
                    present, value = value.present, value.value
                if isinstance(key, bytes):
                    raise Abort("internal error: bytes cannot be a map key")
                entries.append((key, value, present))
        except Failure:
            charge_call(frame, CREATE_MAP, work)
            raise
        charge_call(frame, CREATE_MAP, work)
        return build_map(entries)

    return evaluate


def build_map(entries: list[tuple[object, object, bool]]) -> object:
    if all(type(key) is str for key, _, _ in entries):
        named: dict[str, object] = {}
        for key, value, present in entries:
            assert isinstance(key, str)
            if present:
                named[key] = value
            else:
                named.pop(key, None)
        return named
    built = CelMap()
    for key, value, present in entries:
        if present:
            built.put(key, value)
        else:
            built.remove(key)
    return built
