"""The main program of a worker: loads one plugin, and answers the questions of the scheduler until it closes the pipe.

The scheduler may be killed while the plugin is in native code, where nothing notices a closed pipe. So on Linux the
kernel is asked to kill this process with its parent; elsewhere an alarm ends a call that is overdue by far.
"""

import ctypes
import os
import pickle
import signal
import socket
import sys
import time
from collections import OrderedDict
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from fairway.engine.cycle import extent_of
from fairway.engine.fault import RAISED, Fault, FaultError, description_of
from fairway.engine.points import Context, Extent, Raw, is_timeless
from fairway.engine.state import CycleState
from fairway.engine.status import OK, Code, Status
from fairway.hosts import bitmap
from fairway.hosts.bitmap import WORD, Bits, Rows
from fairway.scheduling import discovery
from fairway.scheduling.checks import check_normalized, check_passed, check_raw, check_status
from fairway.scheduling.guard import ConstructionError, Supervisor, guarded_class, guarded_factory
from fairway.scheduling.isolation.remote import RemoteData, RemoteSnapshot, joined
from fairway.scheduling.isolation.wire import (
    HEADER,
    Answer,
    Ask,
    Describe,
    Described,
    Failed,
    FileSource,
    Load,
    Need,
    PackageSource,
    Part,
    Plugin,
    Ready,
    Refused,
    Reply,
    frame_reply,
    pack,
)
from fairway.scheduling.methods import Method, score_each
from fairway.workloads.placement.workload import PlacementWorkload

KEPT_CYCLES: Final = 64
"""Cycles whose state is kept, for questions about them after newer ones, such as those of explanations."""
_STAGES: Final = ("filtering", "preparing", "scoring")
"""Questions whose answers include the columns that the plugin reads, of which a cycle asks next."""
MOST_GROUPS: Final = 500
"""Different reasons of rejections that an answer at Filter includes. Decoding more takes long, and few ask for them."""
OVERDUE_SECONDS: Final = 120
"""After which the process ends itself: far longer than the scheduler waits."""
NOT_ENCODABLE: Final = "returned {value}, which cannot leave its process: {error}"
OUT_OF_MEMORY: Final = "exceeded its memoryLimit of {limit} bytes"
NO_MEMORY: Final = "exceeded the memory of the machine"
RAISED_MEMORY_ERROR: Final = RAISED.format(kind="MemoryError", error="")
NO_LIMIT: Final = "memoryLimit has no effect on this system: {error}"
NO_LIMIT_REMEDY: Final = "remove it, or run Fairway on Linux"
PARENT_DEATH: Final = 1
"""PR_SET_PDEATHSIG."""


class Connection:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.received = 0.0
        """When the last message arrived."""

    def receive(self) -> Any:
        """Return the next message. Ends the process if there is none: the scheduler ended, or stops the process."""
        (size,) = HEADER.unpack(self._exactly(HEADER.size))
        message = pickle.loads(self._exactly(size))  # the scheduler's own
        self.received = time.monotonic()
        return message

    def send(self, reply: Reply) -> None:
        try:
            self._socket.sendall(frame_reply(reply))
        except OSError:
            _end()

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            try:
                count = self._socket.recv_into(view)
            except OSError:
                count = 0
            if not count:
                _end()
            view = view[count:]
        return data


def _end() -> NoReturn:
    os._exit(0)  # without handlers and threads of the plugin


class _Lenient(Supervisor):
    """Charges nothing: the scheduler does, and decides about quarantine."""

    def charge(self, fault: Fault, *, stalled: bool = False) -> None:
        pass


class Server:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._data = RemoteData(self._fetch)
        self._snapshot: RemoteSnapshot | None = None
        self._contexts: OrderedDict[int, Context] = OrderedDict()
        self._prepared: dict[int, set[str]] = {}
        self._plugin: Any = None
        self._limit: int | None = None

    def run(self) -> NoReturn:
        while True:
            try:
                message = self._connection.receive()
            except MemoryError:
                self._connection.send(Failed("", self._out_of_memory(), fatal=True))
                _end()
            match message:
                case Describe() as request:
                    self._connection.send(self._describe(request))
                case Load() as request:
                    self._connection.send(self._load(request))
                case Ask() as request:
                    signal.alarm(OVERDUE_SECONDS)
                    reply = self._answer(request)
                    signal.alarm(0)
                    self._connection.send(reply)
                    if isinstance(reply, Failed) and reply.fatal:
                        _end()

    def _fetch(self, part: tuple[str, ...]) -> Any:
        name = tuple(map(str, part))
        pieces: list[Any] = []
        while True:
            self._connection.send(Need(name, len(pieces), time.monotonic() - self._connection.received))
            received = self._connection.receive()
            assert isinstance(received, Part)
            pieces.append(received.value)
            if received.last:
                return joined(pieces)

    # Loading

    def _describe(self, request: Describe) -> Reply:
        plugins = _find(request.source, request.name)
        if isinstance(plugins, Refused):
            return plugins
        return Described(
            tuple(
                Plugin(
                    name=plugin.name,
                    methods=tuple(name for name in dir(plugin.kind) if not name.startswith("_")),
                    timeless=is_timeless(plugin.kind),
                )
                for plugin in plugins
            )
        )

    def _load(self, request: Load) -> Reply:
        if request.memory_limit is not None:
            self._limit = request.memory_limit
            try:
                _limit_memory(request.memory_limit)
            except (OSError, ImportError, ValueError) as error:
                return Refused(NO_LIMIT.format(error=error), NO_LIMIT_REMEDY)
        plugins = _find(request.source, request.name)
        if isinstance(plugins, Refused):
            return plugins
        kind = next((plugin.kind for plugin in plugins if plugin.name == request.name), None)
        if kind is None:
            return Refused(f"{_shown(request.source)} no longer defines plugin {request.name!r}")
        try:
            self._plugin = guarded_factory(kind, guarded_class(kind), _Lenient(clock=lambda: 0.0))(
                **request.args
            )
        except ConstructionError as error:
            return Refused(str(error))
        return Ready()

    # Questions

    def _answer(self, request: Ask) -> Reply:
        try:
            context = self._context(request)
            value = self._call(context, request)
            if request.method in _STAGES and hasattr(self._plugin, "reads"):
                value = (value, self._plugin.reads(context))
            else:
                value = (value, None)
        except FaultError as error:
            fatal = error.fault.reason.startswith(RAISED_MEMORY_ERROR)
            reason = self._out_of_memory() if fatal else error.fault.reason
            return Failed(error.fault.point, reason, fatal)
        except MemoryError:
            return Failed("", self._out_of_memory(), fatal=True)
        try:
            return Answer(pack(value))
        except MemoryError:
            return Failed("", self._out_of_memory(), fatal=True)
        except Exception as error:
            return Failed(
                "", NOT_ENCODABLE.format(value=type(value[0]).__name__, error=description_of(error))
            )

    def _out_of_memory(self) -> str:
        return NO_MEMORY if self._limit is None else OUT_OF_MEMORY.format(limit=self._limit)

    def _context(self, request: Ask) -> Context:
        self._data.update(request.updates)
        known = self._contexts.pop(request.cycle, None)
        if known is None or known.snapshot.generation != request.generation:
            snapshot = RemoteSnapshot(
                self._data,
                generation=request.generation,
                live=request.live,
                capacity=len(request.live) * WORD,
                held=request.held,
            )
            workload = PlacementWorkload(request.placement)
            known = Context(snapshot=snapshot, workload=workload, now=request.now, state=CycleState())
            self._prepared[request.cycle] = set()
        self._contexts[request.cycle] = known
        while len(self._contexts) > KEPT_CYCLES:
            oldest, _ = self._contexts.popitem(last=False)
            del self._prepared[oldest]
        return known

    def _call(self, context: Context, request: Ask) -> Any:
        plugin, method, args = self._plugin, request.method, request.args
        prepared = self._prepared[request.cycle]
        if method not in ("normalize", "normalize_fleet") and "pre_filter" not in prepared:
            # Also of a new process, or one that forgot the cycle: later methods read what this one wrote.
            prepared.add("pre_filter")
            if hasattr(plugin, "pre_filter"):
                status, rows = plugin.pre_filter(context)
                if method == "pre_filter":
                    return status, rows
        match method:
            case "normalize":
                return plugin.normalize(args[0], Extent(*args[1]))
            case "normalize_fleet":
                return plugin.normalize_fleet(args[0], Extent(*args[1]))
            case "filtering":
                return self._guarded("Filter", _filtering, context, args[0])
            case "explaining":
                return self._guarded("Filter", _explaining, context, args[0])
            case "scoring" | "preparing":
                status = OK
                if method == "preparing":
                    status = plugin.pre_score(context, args[0])
                    if status.code not in (Code.SUCCESS, Code.WARNING) or not hasattr(plugin, "score"):
                        return status, None, None, None, None
                raw, until = self._guarded("Score", _scoring, context, args[0])
                normalized = self._guarded("NormalizeScore", _normalizing, raw)
                return status, raw.values, raw.present, normalized, until
        return getattr(plugin, method)(context, *args)

    def _guarded(self, point: str, call: Any, *args: Any) -> Any:
        name = "normalize" if point == "NormalizeScore" else point.lower()
        method = Method(name=name, point=point, call=call, check=lambda result, *_args: result)
        return self._plugin._guard.call(method, args)


def _filtering(plugin: Any, context: Context, candidates: Bits) -> tuple[Status, Bits, Any]:
    """Return the status, the rows that pass, and the others by status, if the plugin gives it with them."""
    if hasattr(plugin, "filter_fleet"):
        return *check_passed(plugin.filter_fleet(context, candidates), candidates=candidates), None
    final, passed = OK, []
    groups: dict[Status, list[int]] = {}
    for row in bitmap.rows_of(candidates).tolist():
        status = check_status(plugin.filter(context, row))
        if status.aborts:
            return status, candidates, None
        if status.code is Code.WARNING:
            final = status
        if status.rejects:
            groups.setdefault(status, []).append(row)
        else:
            passed.append(row)
    known = _groups(groups) if len(groups) <= MOST_GROUPS else None
    return final, bitmap.from_rows(passed, context.snapshot.capacity), known


def _explaining(plugin: Any, context: Context, rows: Rows) -> Any:
    groups: dict[Status, list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(check_status(plugin.filter(context, row)), []).append(row)
    return _groups(groups)


def _groups(groups: dict[Status, list[int]]) -> list[tuple[Status, Rows]]:
    return [(status, np.array(rows, dtype=np.int64)) for status, rows in groups.items()]


def _scoring(plugin: Any, context: Context, rows: Rows) -> tuple[Raw, int | None]:
    """Return the raw scores, and how long they hold."""
    find = plugin.score_fleet if hasattr(plugin, "score_fleet") else partial(score_each, plugin)
    raw = check_raw(find(context, rows), count=len(rows), final=not _normalizes(plugin))
    return raw, int(plugin.until(context, rows)) if hasattr(plugin, "until") else None


def _normalizing(plugin: Any, raw: Raw) -> Any:
    """Return the normalised scores; None if there are none."""
    extent = extent_of(raw) if _normalizes(plugin) else None
    if extent is None:
        return None
    return check_normalized(plugin.normalize_fleet(raw.values, extent), count=len(raw.values))


def _normalizes(plugin: Any) -> bool:
    return hasattr(plugin, "normalize") and hasattr(plugin, "normalize_fleet")


def _find(source: FileSource | PackageSource, name: str) -> "tuple[discovery.FoundPlugin, ...] | Refused":
    try:
        if isinstance(source, FileSource):
            return discovery.in_file(Path(source.path), shown=source.shown, start=_call)
        point = EntryPoint(name=name, value=source.value, group=discovery.GROUP)
        return (discovery.in_package(point),)
    except discovery.LoadingError as error:
        return Refused(str(error), error.remedy)
    except SyntaxError as error:
        words = discovery.BAD_SYNTAX.format(path=error.filename, line=error.lineno, message=error.msg)
        return Refused(words)
    except BaseException as error:
        return Refused(description_of(error))


def _shown(source: FileSource | PackageSource) -> str:
    return source.shown if isinstance(source, FileSource) else source.value


def _call(call: Any, /, *args: Any) -> Any:
    return call(*args)


def _limit_memory(size: int) -> None:
    """Let the process allocate so many bytes more than it has now."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + size
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _die_with(parent: int, *, kernel: bool) -> None:
    if kernel and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGKILL)
    if os.getppid() != parent:  # it died before
        _end()


def main(descriptor: str, parent: str, _paths: str, ends_with_thread: str) -> NoReturn:
    """``ends_with_thread`` if the thread that started this process lives as long as the scheduler: the kernel means it
    by parent."""
    _die_with(int(parent), kernel=bool(ends_with_thread))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    Server(Connection(socket.socket(fileno=int(descriptor)))).run()
