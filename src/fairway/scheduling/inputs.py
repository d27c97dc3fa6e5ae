"""What third-party plugins are given: the same data as built-in plugins get, but read-only or as copies.

Arrays, lists and mappings are read-only, the workload's spec is a private copy that is compared after each call, and
the cycle's state accepts no key of another plugin. This stops what a plugin does by the public names; one that
circumvents it on purpose needs a process of its own (``isolation``).
"""

import copy
from dataclasses import replace
from typing import Any, Final, cast

import msgspec
import numpy as np

from fairway.engine.points import CommitContext, Context
from fairway.engine.state import CycleState, Value
from fairway.engine.workload import Workload
from fairway.hosts.protection import protect, read_only, shield

SPEC: Final = "the spec of the workload"
FOREIGN_KEY: Final = "the cycle state {key!r}, which {owner} wrote"
ANOTHER: Final = "another plugin"


class ModifiedError(Exception):
    """A plugin modified what it was given; the message names it."""


class PluginState(CycleState):
    """The state of a cycle, as one plugin may use it: read everything, and write only keys of its own."""

    __slots__ = ("_plugin",)

    def __init__(self, state: CycleState, plugin: str) -> None:
        self._values = state._values
        self._plugin = plugin

    def read(self, key: str, kind: type[Value]) -> Value:
        value = super().read(key, kind)
        is_own = self._values.get(_OWNERS, {}).get(key) == self._plugin
        return value if is_own else cast("Value", shield(value))

    def write(self, key: str, value: object) -> None:
        owners = self._values.setdefault(_OWNERS, {})
        if key == _OWNERS or (key in self._values and owners.get(key) != self._plugin):
            raise ModifiedError(FOREIGN_KEY.format(key=key, owner=owners.get(key, ANOTHER)))
        owners[key] = self._plugin
        self._values[key] = value


_OWNERS: Final = "fairway.dev/owners"


class Inputs:
    """Protects the arguments of one plugin's calls. It keeps no snapshot: the fleet copies columns that one shares."""

    __slots__ = ("_copy", "_plugin", "_print", "_spec")

    def __init__(self, plugin: str) -> None:
        self._plugin = plugin
        self._spec: object = None
        self._copy: Any = None
        self._print = b""

    def protected(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self._protect(arg) for arg in args)

    def check(self, inputs: tuple[Any, ...]) -> None:
        """Raises ModifiedError."""
        if not any(isinstance(arg, _WITH_SPEC) for arg in inputs):
            return
        if self._spec is not None and _fingerprint(self._copy) != self._print:
            self._spec = self._copy = None
            raise ModifiedError(SPEC)

    def _protect(self, value: Any) -> Any:
        match value:
            case np.ndarray():
                return read_only(value)
            case Context():
                return replace(
                    value,
                    snapshot=protect(value.snapshot),
                    workload=self._workload(value.workload),
                    state=PluginState(value.state, self._plugin),
                )
            case CommitContext():
                return replace(
                    value,
                    workload=self._workload(value.workload),
                    state=PluginState(value.state, self._plugin),
                )
            case Workload():
                return self._workload(value)
            case _:
                return value

    def _workload(self, workload: Any) -> Any:
        if not isinstance(workload, Workload):
            return workload
        if self._spec is not workload.spec:
            self._copy = copy.deepcopy(workload.spec)
            self._spec = workload.spec
            self._print = _fingerprint(self._copy)
        return workload.with_spec(self._copy)


_WITH_SPEC: Final = (Context, CommitContext, Workload)


def _fingerprint(spec: object) -> bytes:
    try:
        return msgspec.msgpack.encode(spec)
    except (TypeError, ValueError):  # not a type that msgspec encodes
        return repr(spec).encode()
