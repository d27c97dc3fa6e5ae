"""Guards around third-party plugins: a fault is charged to the plugin's name and ends only the call.

A guarded plugin has the extension points and forms of the plugin inside. Every call is watched, gets data that it
cannot modify by accident, and has its result checked. A call that raises, returns nonsense, modifies its input or
stalls raises FaultError, and the profile says what becomes of the cycle. A plugin that keeps failing is put in
quarantine. Built-in plugins have no guard and no overhead.

A plugin without a whole-fleet form gets one from its guard: one guarded call for all hosts instead of one for each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fairway.engine.fault import Fault, FaultError, nonsense, raised
from fairway.engine.points import Plugin
from fairway.scheduling.checks import Nonsense
from fairway.scheduling.inputs import Inputs, ModifiedError
from fairway.scheduling.methods import ASYNC_METHODS, Method, methods_of
from fairway.scheduling.quarantine import Quarantine

STALLED: Final = "did not return within {limit:g} seconds and was interrupted"
SLOW: Final = "took {seconds:.1f} seconds, more than the limit of {limit:g}"
MODIFIED: Final = "modified its input: {what}"
QUARANTINED: Final = "is in quarantine; its last fault: {last}"


class Stalled(BaseException):
    """Raised inside a call that exceeded its limit. Not an Exception, so that plugins rarely catch it."""


class Watch(Protocol):
    """Calls functions with a time limit. Raises Stalled inside a call that exceeds it."""

    @property
    def limit(self) -> float:
        """In seconds."""

    def watch(self, call: Callable[..., Any], /, *args: Any) -> Any: ...


class Unwatched:
    """No time limit: for commands that a user can interrupt, and for tests."""

    limit = float("inf")

    def watch(self, call: Callable[..., Any], /, *args: Any) -> Any:
        return call(*args)


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
        supervisor, point = self._supervisor, method.point
        began = supervisor.clock()
        until = supervisor.quarantine.until(self.name, now=began)
        if until is not None:
            # Reported when the quarantine began: not again for every call.
            raise FaultError(
                Fault(self.name, point, QUARANTINED.format(last=supervisor.last[self.name].reason))
            )
        stalled = False
        try:
            given = self._inputs.protected(args)
            result = supervisor.watch.watch(method.call, self.plugin, *given)
            self._inputs.check(given)
            checked = method.check(result, *args)
        except Stalled:
            stalled = True
            fault = Fault(self.name, point, STALLED.format(limit=supervisor.watch.limit))
        except ModifiedError as error:
            fault = Fault(self.name, point, MODIFIED.format(what=error))
        except Nonsense as error:
            fault = nonsense(self.name, point, error.value, expected=error.expected)
        except FaultError:
            raise  # of another plugin, which this one called
        except (Exception, SystemExit) as error:
            fault = self._raised(point, error)
        else:
            seconds = supervisor.clock() - began
            supervisor.measure(self.name, point, seconds)
            if seconds > supervisor.watch.limit:
                # It blocked where it could not be interrupted. The result is valid, and the next call may block again.
                words = SLOW.format(seconds=seconds, limit=supervisor.watch.limit)
                supervisor.charge(Fault(self.name, point, words), stalled=True)
            else:
                supervisor.quarantine.succeeded(self.name)
            return checked
        supervisor.measure(self.name, point, supervisor.clock() - began)
        supervisor.charge(fault, stalled=stalled)
        raise FaultError(fault)

    def _raised(self, point: str, error: BaseException) -> Fault:
        if isinstance(error, ValueError) and "read-only" in str(error):
            return Fault(self.name, point, MODIFIED.format(what=error))
        return raised(self.name, point, error)


def guarded_class(kind: type[Any]) -> type[Any]:
    """Return a class with the methods of the plugin class ``kind`` that the engine calls, each of them guarded."""
    members: dict[str, Any] = {name: _guarded(method) for name, method in methods_of(kind).items()}
    members |= {name: _delegated(name) for name in ASYNC_METHODS if hasattr(kind, name)}
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


def _delegated(name: str) -> Callable[..., Any]:
    async def call(self: Any, *args: Any) -> Any:
        return await getattr(self._guard.plugin, name)(*args)

    return call


def guarded_factory(
    factory: Callable[..., Plugin], kind: type[Any], supervisor: Supervisor
) -> Callable[..., Any]:
    """Return a factory of guarded plugins; ``kind`` is the result of ``guarded_class``."""

    def create(**args: Any) -> Any:
        return kind(Guard(factory(**args), supervisor))

    return create
