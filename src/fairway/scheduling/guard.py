"""Guards around third-party plugins: a fault is charged to the plugin's name and ends only the call.

A guarded plugin has the extension points and forms of the plugin inside. Every call is watched, gets data that it
cannot modify by accident, and has its result checked. A call that raises, returns nonsense, modifies its input or
stalls raises FaultError, and the profile defines how the cycle continues. A plugin that keeps failing is put in
quarantine. Built-in plugins have no guard and no overhead.

A plugin without a whole-fleet form gets one from its guard: one guarded call for all hosts instead of one for each.

Coroutines (PreBind, Bind, PostBind) wait for I/O, so that their limit is longer; what they do between two waits has the
limit of other calls. Each runs in a task of its own: a plugin can cancel no other task, and one that ignores its own
cancellation is left behind.

Whatever class an error of a plugin has, it is the plugin's fault. Code of the plugin also runs when its error is
printed and its result is checked, so that both are part of the call.
"""

import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from inspect import getattr_static, iscoroutine
from types import FunctionType
from typing import Any, Final, Protocol

from fairway.engine.fault import (
    LONGEST_REASON,
    Fault,
    FaultError,
    Stalled,
    description_of,
    nonsense,
    place_of,
    raised_by,
    words_of,
)
from fairway.engine.points import Plugin
from fairway.engine.status import Code, Status
from fairway.scheduling.checks import Nonsense
from fairway.scheduling.coroutines import Waited, await_apart
from fairway.scheduling.inputs import Inputs, ModifiedError
from fairway.scheduling.interrupts import Interrupts
from fairway.scheduling.methods import Method, coroutines_of, methods_of
from fairway.scheduling.quarantine import Quarantine

START_SECONDS: Final = 30.0
"""How long importing a plugin, or creating one, may take."""

STALLED: Final = "did not return within {limit:g} seconds and was interrupted"
SLOW: Final = "took {seconds:.1f} seconds, more than the limit of {limit:g}"
RETURNED_ERROR: Final = "returned Error: {reasons}"
MODIFIED: Final = "modified its input: {what}"
QUARANTINED: Final = "is in quarantine; its last fault: {last}"
UNPRINTABLE: Final = "raised an error that cannot be printed"
CLUNG: Final = "did not end when it was cancelled, and was left behind"


class ConstructionError(Exception):
    """The class of a plugin could not be called."""


class Watch(Protocol):
    """Calls functions with a time limit. Raises Stalled inside a call that exceeds it."""

    @property
    def limit(self) -> float:
        """In seconds."""

    @property
    def coroutine_limit(self) -> float:
        """Of a coroutine from its start to its end, in seconds."""

    def watch(self, call: Callable[..., Any], /, *args: Any) -> Any: ...

    def start(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Like ``watch``, with the limit of START_SECONDS, for what happens once: importing and creating plugins."""

    async def watch_coroutine(
        self, coroutine: Coroutine[Any, Any, Any], /, *, left_behind: Callable[[], None]
    ) -> Any:
        """Raises Waited if the coroutine waits for too long, and Stalled if it does not wait.

        Calls ``left_behind`` if this is cancelled and the coroutine does not end.
        """


class Unwatched:
    """No time limit: for commands that a user can interrupt, and for tests."""

    limit = coroutine_limit = float("inf")

    def watch(self, call: Callable[..., Any], /, *args: Any) -> Any:
        return call(*args)

    start = watch

    async def watch_coroutine(
        self, coroutine: Coroutine[Any, Any, Any], /, *, left_behind: Callable[[], None]
    ) -> Any:
        return await await_apart(coroutine, watch=self.watch, limit=None, left_behind=left_behind)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReport:
    fault: Fault
    quarantine: float | None = None
    """Duration of the quarantine that begins with this fault, in seconds."""


class Supervisor:
    """What the guards of a process share: the clock, the watchdog, the quarantine, and the function that gets reports.

    ``report`` gets every fault, ``measure`` the plugin, point and seconds of every call. Neither may raise.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        watch: Watch | None = None,
        report: Callable[[FaultReport], None] = lambda _report: None,
        measure: Callable[[str, str, float], None] = lambda _plugin, _point, _seconds: None,
    ) -> None:
        self.clock = clock
        self.watch = watch or Unwatched()
        self.report = report
        self.measure = measure
        self.is_async = False
        """Whether an event loop must not wait for plugins in processes of their own: a cycle without their answers then
        raises PendingAnswer."""
        self.quarantine = Quarantine()
        self.last: dict[str, Fault] = {}
        """The last fault of each plugin."""
        self._issued: FaultError | None = None

    def issue(self, fault: Fault) -> FaultError:
        self._issued = FaultError(fault)
        return self._issued

    def is_issued(self, error: BaseException) -> bool:
        """Return whether a guard raised this error last: a plugin could blame another one by an error of its own."""
        # By identity, because a plugin can raise a FaultError with any name.
        return error is self._issued

    def charge(self, fault: Fault, *, stalled: bool = False) -> None:
        self.last[fault.plugin] = fault
        seconds = self.quarantine.failed(fault.plugin, now=self.clock(), stalled=stalled)
        self.report(FaultReport(fault=fault, quarantine=seconds))


class Guard:
    """Calls the methods of one plugin."""

    __slots__ = ("_inputs", "_supervisor", "name", "plugin")

    def __init__(self, plugin: Plugin, supervisor: Supervisor) -> None:
        self.name = plugin.name
        self.plugin = plugin
        self._supervisor = supervisor
        self._inputs = Inputs(plugin.name)

    def call(self, method: Method, args: tuple[Any, ...]) -> Any:
        """Call the plugin, and return its checked result. Raises FaultError, unless the method has a fallback."""
        try:
            return self._call(method, args)
        except FaultError:
            if method.fallback is None:
                raise
            return method.fallback(*args)

    def _call(self, method: Method, args: tuple[Any, ...]) -> Any:
        watch, began = self._supervisor.watch, self._begin(method.point)
        try:
            with Interrupts():
                checked = watch.watch(self._attempt, method, args)
        except (FaultError, Stalled) as error:
            raise self._fail(method.point, error, began=began, limit=watch.limit) from None
        self._succeed(method.point, began=began, limit=watch.limit)
        return checked

    async def call_coroutine(self, method: Method, args: tuple[Any, ...]) -> Any:
        """Await a coroutine of the plugin, and return its checked result. Raises FaultError."""
        watch, began = self._supervisor.watch, self._begin(method.point)
        try:
            result = watch.watch(self._begin_coroutine, method, args)
            if iscoroutine(result):
                result = await watch.watch_coroutine(
                    result, left_behind=lambda: self._left_behind(method.point)
                )
        except (FaultError, Stalled) as error:
            limit = watch.coroutine_limit if isinstance(error, Waited) else watch.limit
            raise self._fail(method.point, error, began=began, limit=limit) from None
        self._succeed(method.point, began=began, limit=watch.coroutine_limit)
        return result

    def _attempt(self, method: Method, args: tuple[Any, ...]) -> Any:
        """Raises FaultError for any error of the plugin."""
        try:
            protected = self._inputs.protected(args)
            return self._checked(method, method.call(self.plugin, *protected), args)
        except Stalled:
            raise
        except BaseException as error:
            raise self._contained(method, error) from None

    def _begin_coroutine(self, method: Method, args: tuple[Any, ...]) -> Any:
        """Return a coroutine, or the checked result of a method that has none. Raises FaultError."""
        try:
            result = method.call(self.plugin, *self._inputs.protected(args))
            return (
                self._awaited(method, result, args)
                if iscoroutine(result)
                else self._checked(method, result, args)
            )
        except Stalled:
            raise
        except BaseException as error:
            raise self._contained(method, error) from None

    async def _awaited(
        self, method: Method, coroutine: Coroutine[Any, Any, Any], args: tuple[Any, ...]
    ) -> Any:
        # A CancelledError is the plugin's fault, too: if it was cancelled from outside, the result is not read.
        try:
            return self._checked(method, await coroutine, args)
        except Stalled:
            raise
        except BaseException as error:
            raise self._contained(method, error) from None

    def _left_behind(self, point: str) -> None:
        self._supervisor.charge(Fault(self.name, point, CLUNG), stalled=True)

    def _begin(self, point: str) -> float:
        supervisor = self._supervisor
        began = supervisor.clock()
        if supervisor.quarantine.until(self.name, now=began) is not None:
            # Reported when the quarantine began: not again for every call.
            fault = Fault(self.name, point, QUARANTINED.format(last=supervisor.last[self.name].reason))
            raise supervisor.issue(fault)
        return began

    def _checked(self, method: Method, result: Any, args: tuple[Any, ...]) -> Any:
        self._inputs.check(args)
        checked = method.check(result, *args)
        status = checked[0] if isinstance(checked, tuple) and checked else checked
        if isinstance(status, Status) and status.code is Code.ERROR:
            reason = RETURNED_ERROR.format(reasons=status.message)[:LONGEST_REASON]
            raise self._supervisor.issue(Fault(self.name, method.point, reason))
        return checked

    def _succeed(self, point: str, *, began: float, limit: float) -> None:
        supervisor = self._supervisor
        seconds = supervisor.clock() - began
        supervisor.measure(self.name, point, seconds)
        if seconds > limit:
            # It blocked where it could not be interrupted. The result is valid, and the next call may block again.
            supervisor.charge(
                Fault(self.name, point, SLOW.format(seconds=seconds, limit=limit)), stalled=True
            )
        else:
            supervisor.quarantine.succeeded(self.name)

    def _fail(self, point: str, error: FaultError | Stalled, *, began: float, limit: float) -> FaultError:
        if isinstance(error, FaultError):
            fault = error.fault
            if fault.plugin != self.name:
                return error  # of another plugin, which this one called
        else:
            fault = Fault(self.name, point, STALLED.format(limit=limit))
        self._supervisor.measure(self.name, point, self._supervisor.clock() - began)
        self._supervisor.charge(fault, stalled=isinstance(error, Stalled))
        return self._supervisor.issue(fault)

    def _contained(self, method: Method, error: BaseException) -> FaultError:
        if isinstance(error, FaultError) and self._supervisor.is_issued(error):
            return error
        try:
            fault = self._fault_of(method, error)
        except Stalled:
            raise
        except BaseException:  # the error is the plugin's code, too
            fault = Fault(self.name, method.point, UNPRINTABLE)
        return self._supervisor.issue(fault)

    def _fault_of(self, method: Method, error: BaseException) -> Fault:
        point = method.point
        match error:
            case ModifiedError():
                return Fault(self.name, point, MODIFIED.format(what=error))
            case Nonsense():
                function = getattr_static(type(self.plugin), method.name, None)
                place = ""
                if isinstance(function, FunctionType):
                    code = function.__code__
                    place = place_of(code.co_filename, code.co_firstlineno)
                return nonsense(self.name, point, error.value, expected=error.expected, place=place)
            case ValueError() if "read-only" in str(error):
                return Fault(self.name, point, MODIFIED.format(what=error))
            case _:
                return raised_by(self.name, point, error, file=_file_of(type(self.plugin)))


def _file_of(kind: type[Any]) -> str | None:
    module = sys.modules.get(kind.__module__) if isinstance(kind.__module__, str) else None
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) else None


def guarded_class(kind: type[Any]) -> type[Any]:
    """Return a class with the methods of the plugin class ``kind`` that the engine calls, each of them guarded."""
    members: dict[str, Any] = {name: _guarded(method) for name, method in methods_of(kind).items()}
    members |= {name: _guarded_coroutine(method) for name, method in coroutines_of(kind).items()}
    members["__init__"] = _keep_guard
    members["__slots__"] = ("_guard", "name")
    members["__doc__"] = kind.__doc__
    return type(f"Guarded{kind.__name__}", (), members)


def _keep_guard(self: Any, guard: Guard) -> None:
    self._guard = guard
    self.name = guard.name


def _guarded(method: Method) -> Callable[..., Any]:
    def call(self: Any, *args: Any) -> Any:
        return self._guard.call(method, args)

    return call


def _guarded_coroutine(method: Method) -> Callable[..., Any]:
    async def call(self: Any, *args: Any) -> Any:
        return await self._guard.call_coroutine(method, args)

    return call


def guarded_factory(
    factory: Callable[..., Plugin], kind: type[Any], supervisor: Supervisor
) -> Callable[..., Any]:
    """Return a factory of guarded plugins; ``kind`` is the result of ``guarded_class``. It raises Exceptions only."""

    def create(**args: Any) -> Any:
        try:
            with Interrupts():
                return kind(supervisor.watch.start(_create, factory, args, supervisor))
        except Stalled:
            raise ConstructionError(STALLED.format(limit=START_SECONDS)) from None

    return create


def _create(factory: Callable[..., Plugin], args: dict[str, Any], supervisor: Supervisor) -> Guard:
    try:
        return Guard(factory(**args), supervisor)
    except Stalled:
        raise
    except BaseException as error:
        words = words_of(error) if isinstance(error, Exception) else ""
        raise ConstructionError(words or description_of(error)) from error
