"""Guards around third-party plugins: a fault is charged to the plugin's name and ends only the call.

A guarded plugin has the extension points and forms of the plugin inside. Every call is watched, gets data that it
cannot modify by accident, and has its result checked. A call that raises, returns nonsense, modifies its input or
stalls raises FaultError, and the profile defines how the cycle continues. A plugin that keeps failing is put in
quarantine. Built-in plugins have no guard and no overhead.

A plugin without a whole-fleet form gets one from its guard: one guarded call for all hosts instead of one for each.

Coroutines (PreBind, Bind, PostBind) wait for I/O, so that their limit is longer; what they do between two waits has the
limit of other calls.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from inspect import iscoroutine
from typing import Any, Final, Protocol

from fairway.engine.fault import LONGEST_REASON, Fault, FaultError, nonsense, raised
from fairway.engine.points import Plugin
from fairway.engine.status import Code, Status
from fairway.scheduling.checks import Nonsense
from fairway.scheduling.inputs import Inputs, ModifiedError
from fairway.scheduling.methods import Method, coroutines_of, methods_of
from fairway.scheduling.quarantine import Quarantine

STALLED: Final = "did not return within {limit:g} seconds and was interrupted"
SLOW: Final = "took {seconds:.1f} seconds, more than the limit of {limit:g}"
RETURNED_ERROR: Final = "returned Error: {reasons}"
MODIFIED: Final = "modified its input: {what}"
QUARANTINED: Final = "is in quarantine; its last fault: {last}"


class Stalled(BaseException):
    """Raised inside a call that exceeded its limit. Not an Exception, so that plugins rarely catch it."""


class Waited(Stalled):
    """Raised for a coroutine that exceeded its limit."""


class Watch(Protocol):
    """Calls functions with a time limit. Raises Stalled inside a call that exceeds it."""

    @property
    def limit(self) -> float:
        """In seconds."""

    @property
    def coroutine_limit(self) -> float:
        """Of a coroutine from its start to its end, in seconds."""

    def watch(self, call: Callable[..., Any], /, *args: Any) -> Any: ...

    async def watch_coroutine(self, coroutine: Coroutine[Any, Any, Any], /) -> Any:
        """Raises Waited if the coroutine waits for too long, and Stalled if it does not wait."""


class Unwatched:
    """No time limit: for commands that a user can interrupt, and for tests."""

    limit = coroutine_limit = float("inf")

    def watch(self, call: Callable[..., Any], /, *args: Any) -> Any:
        return call(*args)

    async def watch_coroutine(self, coroutine: Coroutine[Any, Any, Any], /) -> Any:
        return await coroutine


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReport:
    fault: Fault
    quarantine: float | None = None
    """Duration of the quarantine that begins with this fault, in seconds."""


class Supervisor:
    """What the guards of a process share: the clock, the watchdog, the quarantine, and who is informed.

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
        self.quarantine = Quarantine()
        self.last: dict[str, Fault] = {}
        """The last fault of each plugin."""

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
            given = self._inputs.protected(args)
            result = watch.watch(method.call, self.plugin, *given)
            checked = self._checked(method, result, given, args)
        except (Exception, SystemExit, Stalled) as error:
            raise self._fail(method.point, error, began=began, limit=watch.limit) from None
        self._succeed(method.point, began=began, limit=watch.limit)
        return checked

    async def call_coroutine(self, method: Method, args: tuple[Any, ...]) -> Any:
        """Await a coroutine of the plugin, and return its checked result. Raises FaultError."""
        watch, began = self._supervisor.watch, self._begin(method.point)
        try:
            given = self._inputs.protected(args)
            result = watch.watch(method.call, self.plugin, *given)
            if iscoroutine(result):
                result = await watch.watch_coroutine(result)
            checked = self._checked(method, result, given, args)
        except (Exception, SystemExit, Stalled) as error:
            limit = watch.coroutine_limit if isinstance(error, Waited) else watch.limit
            raise self._fail(method.point, error, began=began, limit=limit) from None
        self._succeed(method.point, began=began, limit=watch.coroutine_limit)
        return checked

    def _begin(self, point: str) -> float:
        supervisor = self._supervisor
        began = supervisor.clock()
        if supervisor.quarantine.until(self.name, now=began) is not None:
            # Reported when the quarantine began: not again for every call.
            raise FaultError(
                Fault(self.name, point, QUARANTINED.format(last=supervisor.last[self.name].reason))
            )
        return began

    def _checked(self, method: Method, result: Any, given: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
        self._inputs.check(given)
        checked = method.check(result, *args)
        status = checked[0] if isinstance(checked, tuple) and checked else checked
        if isinstance(status, Status) and status.code is Code.ERROR:
            raise FaultError(
                Fault(self.name, method.point, RETURNED_ERROR.format(reasons=status.message)[:LONGEST_REASON])
            )
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

    def _fail(self, point: str, error: BaseException, *, began: float, limit: float) -> FaultError:
        if isinstance(error, FaultError) and error.fault.plugin != self.name:
            return error  # of another plugin, which this one called
        fault = self._fault_of(point, error, limit=limit)
        self._supervisor.measure(self.name, point, self._supervisor.clock() - began)
        self._supervisor.charge(fault, stalled=isinstance(error, Stalled))
        return FaultError(fault)

    def _fault_of(self, point: str, error: BaseException, *, limit: float) -> Fault:
        match error:
            case Stalled():
                return Fault(self.name, point, STALLED.format(limit=limit))
            case ModifiedError():
                return Fault(self.name, point, MODIFIED.format(what=error))
            case Nonsense():
                return nonsense(self.name, point, error.value, expected=error.expected)
            case _:
                return self._raised(point, error)

    def _raised(self, point: str, error: BaseException) -> Fault:
        if isinstance(error, ValueError) and "read-only" in str(error):
            return Fault(self.name, point, MODIFIED.format(what=error))
        return raised(self.name, point, error)


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
    """Return a factory of guarded plugins; ``kind`` is the result of ``guarded_class``."""

    def create(**args: Any) -> Any:
        return kind(Guard(factory(**args), supervisor))

    return create
