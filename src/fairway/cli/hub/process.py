"""Runs the hub until it is told to stop: announces it, logs for it, and says why it can't when it can't.

What is to run with it, such as controllers, runs beside it: started when the hub answers, announced together with it,
and stopped before it.

What a hub holds is secret. Files it makes are readable by nobody else, and neither its log nor its last words quote
an exception, whose text may quote an object; `FAIRWAY_DEBUG=1` lifts that.
"""

import asyncio
import contextlib
import copy
import csv
import errno
import gc
import ipaddress
import logging
import os
import re
import shlex
import socket
import sys
import tempfile
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import yaml

from fairway.cli import signals
from fairway.cli.errors import DEBUG_VARIABLE, BadInputError, CommandError
from fairway.cli.hub.faults import private, told
from fairway.cli.output import OutputFormat, emit, say
from fairway.hub.authn.bearer_tokens import StaticTokens, TokenFileFault
from fairway.hub.hub import RENEWAL_SECONDS, Hub, Settings, running

log = logging.getLogger(__name__)

KUBECONFIG: Final = "admin.kubeconfig"

BUSY: Final = (
    "port {port} of {host} is taken; stop what listens there, or give another with --port (0: any free one)"
)
NOT_ALLOWED: Final = "port {port} of {host} needs more rights than yours; give one above 1023 with --port"
NOT_HERE: Final = "cannot listen on {host}: no address of this machine; give one that is with --host"
CANNOT_LISTEN: Final = "cannot listen on {host} port {port}: {reason}"
CANNOT_WRITE: Final = "cannot write {path}: {reason}"
CANNOT_WRITE_YET: Final = "cannot write %s yet: %s"
BAD_NAME: Final = "--name {name!r}: neither a host name nor an address"
BAD_TOKENS: Final = "--token-file {path}: {reason}"
NOT_TEXT: Final = "not a text file in UTF-8"
FOREIGN_KUBECONFIG: Final = (
    "--kubeconfig-out {path}: the file holds something else than an earlier hub's kubeconfig, which would be "
    "lost; name another file"
)
FAILED: Final = (
    "the hub failed: {kind} in {place}. This is a fault in Fairway. What it acknowledged is kept; set "
    f"{DEBUG_VARIABLE}=1 to see more"
)

READY: Final = "hub ready at {url}, {kept}"
KEPT: Final = "data in {folder}"
NOT_KEPT: Final = "in memory: nothing is left when it ends"
EVERYWHERE: Final = (
    "It listens on every address of this machine. Clients elsewhere need the name they use for it: --name"
)
HOW_TO_STOP: Final = "Ctrl-C stops it."
STOPPING: Final = "stopping"

_NAME: Final = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?")


class HubFailed(CommandError):
    """Something nobody foresaw."""


async def _for_ever() -> None:
    await asyncio.Event().wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is said about a hub that is ready: ``state`` about what it is, ``advice`` about what to do with it.

    ``advice`` stands below the line with the kubeconfig. ``facts`` go into the document for programs. ``over`` returns
    or raises when what runs beside the hub can't go on.
    """

    state: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    over: Callable[[], Awaitable[None]] = _for_ever


Beside = Callable[[Hub, Path], AbstractAsyncContextManager[Told]]
"""What runs beside a hub, given the administrator's kubeconfig."""


def _alone(settings: Settings) -> Beside:
    kinds = "managedclusters" if settings.definitions else "namespaces"

    @asynccontextmanager
    async def nothing(_hub: Hub, _kubeconfig: Path) -> AsyncIterator[Told]:
        yield Told(advice=(f"  kubectl get {kinds}",))

    return nothing


def serve(
    settings: Settings,
    *,
    kubeconfig: Path | None,
    output: OutputFormat,
    verbose: bool,
    beside: Beside | None = None,
) -> None:
    """Returns once it was told to stop and has stopped."""
    _check(settings, kubeconfig)
    with private(), _logging(verbose=verbose), _place(settings.folder, kubeconfig) as path:
        try:
            with told():
                asyncio.run(_serve(settings, path, output, beside or _alone(settings)))
        except OSError as error:
            raise _explained(error, settings) from error
        except (CommandError, BrokenPipeError):
            raise
        except Exception as error:
            if _debugging():
                raise
            kind, place = type(error).__qualname__, _where(error)
            # Without the cause, which somebody might print.
            raise HubFailed(FAILED.format(kind=kind, place=place)) from None


def _check(settings: Settings, kubeconfig: Path | None) -> None:
    """What can be wrong with the options, before anything is made."""
    for name in settings.names:
        if not _NAME.fullmatch(name) and not _is_address(name):
            raise BadInputError(BAD_NAME.format(name=name))
    if settings.tokens is not None:
        try:
            StaticTokens.read(settings.tokens)
        except TokenFileFault as fault:
            raise BadInputError(BAD_TOKENS.format(path=settings.tokens, reason=fault)) from None
        except (UnicodeDecodeError, csv.Error):
            raise BadInputError(BAD_TOKENS.format(path=settings.tokens, reason=NOT_TEXT)) from None
        except OSError as error:
            raise BadInputError(BAD_TOKENS.format(path=settings.tokens, reason=error.strerror)) from None
    if settings.audit is not None:
        # The audit log itself would only count what it can't write.
        try:
            with private(), settings.audit.open("ab"):
                pass
        except OSError as error:
            raise BadInputError(CANNOT_WRITE.format(path=settings.audit, reason=error.strerror)) from None
    if kubeconfig is not None and kubeconfig.exists() and not _is_ours(kubeconfig):
        raise BadInputError(FOREIGN_KUBECONFIG.format(path=kubeconfig))


def _is_address(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(text))
    return False


def _is_ours(path: Path) -> bool:
    """An empty file, or one with nothing in it but what a hub writes."""
    try:
        found: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return found is None or [each["name"] for each in found["clusters"]] == ["fairway"]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return False


@contextlib.contextmanager
def _place(folder: Path | None, chosen: Path | None) -> Iterator[Path]:
    """Where the administrator's kubeconfig goes. A temporary one goes with the hub, which it is no use without."""
    if chosen is not None:
        yield chosen.absolute()
    elif folder is not None:
        yield folder.absolute() / KUBECONFIG
    else:
        with tempfile.TemporaryDirectory(prefix="fairway-hub-") as made:
            yield Path(made, KUBECONFIG)


async def _serve(settings: Settings, kubeconfig: Path, output: OutputFormat, beside: Beside) -> None:
    asyncio.get_running_loop().set_exception_handler(_stray)
    with signals.listening() as stop:
        async with running(settings) as hub:
            # Schemas and stored objects stay; walking them all would stop the event loop for 50 ms at a time.
            gc.collect()
            gc.freeze()
            try:
                hub.certificates.write_kubeconfig(kubeconfig, server=hub.url)
            except OSError as error:
                if hub.store.read_only is None:
                    raise BadInputError(
                        CANNOT_WRITE.format(path=kubeconfig, reason=error.strerror)
                    ) from error
                log.warning(CANNOT_WRITE_YET, kubeconfig, error.strerror)
            keeping = asyncio.create_task(_keep_kubeconfig(hub, kubeconfig))
            try:
                attending = _attend(hub, settings, kubeconfig, output, beside)
                await signals.until(stop, attending, on_stop=lambda: _say_stopping(output))
            finally:
                keeping.cancel()
    log.info("stopped")


async def _keep_kubeconfig(hub: Hub, path: Path) -> None:
    """Rewritten when the hub renewed a certificate in it, and until the disk has room for it."""
    written: object = None
    while True:
        wanted = (hub.certificates.admin, hub.certificates.authority.identity)
        if wanted != written:
            try:
                hub.certificates.write_kubeconfig(path, server=hub.url)
                written = wanted
            except OSError as error:
                log.debug(CANNOT_WRITE_YET, path, error.strerror)
        await asyncio.sleep(RENEWAL_SECONDS)


async def _attend(
    hub: Hub, settings: Settings, kubeconfig: Path, output: OutputFormat, beside: Beside
) -> None:
    async with beside(hub, kubeconfig) as told:
        _announce(hub, settings, kubeconfig, output, told)
        await told.over()


def _say_stopping(output: OutputFormat) -> None:
    log.info(STOPPING)
    if output == "table":
        say(STOPPING)
        sys.stdout.flush()


def _announce(hub: Hub, settings: Settings, kubeconfig: Path, output: OutputFormat, told: Told) -> None:
    folder = settings.folder.absolute() if settings.folder else None
    log.info("process %d serves %s", os.getpid(), hub.url)
    if output == "table":
        kept = KEPT.format(folder=folder) if folder else NOT_KEPT
        say(READY.format(url=hub.url, kept=kept))
        if settings.host in ("", "0.0.0.0", "::"):
            say(EVERYWHERE)
        for line in (*told.state, f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}", *told.advice):
            say(line)
        say(HOW_TO_STOP)
    else:
        document = {
            "url": hub.url,
            "kubeconfig": str(kubeconfig),
            "data": str(folder) if folder else None,
            "pid": os.getpid(),
            **told.facts,
        }
        emit((), columns={}, output=output, document=document)
    # Whoever waits for these lines in a pipe has waited long enough.
    sys.stdout.flush()


def _explained(error: OSError, settings: Settings) -> CommandError:
    host, port = settings.host, settings.port
    if error.filename is not None:
        return BadInputError(CANNOT_WRITE.format(path=error.filename, reason=error.strerror))
    if error.errno == errno.EADDRINUSE:
        return BadInputError(BUSY.format(host=host, port=port))
    if error.errno == errno.EACCES:
        return BadInputError(NOT_ALLOWED.format(host=host, port=port))
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return BadInputError(NOT_HERE.format(host=host))
    return BadInputError(CANNOT_LISTEN.format(host=host, port=port, reason=error.strerror or error))


# Logging


class Discreet(logging.Formatter):
    """Tracebacks with the places and types of exceptions, without their words."""

    def format(self, record: logging.LogRecord) -> str:
        # Another handler may have left its own, complete form.
        record = copy.copy(record)
        record.exc_text = None
        return super().format(record)

    def formatException(  # noqa: N802  # logging's name
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        kind, _, trace = ei
        return "".join(traceback.format_tb(trace)) + (kind.__qualname__ if kind else "")


@contextlib.contextmanager
def _logging(*, verbose: bool) -> Iterator[None]:
    """Warnings on stderr; with ``verbose`` also what Fairway itself finds worth telling."""
    handler = logging.StreamHandler()
    make = logging.Formatter if _debugging() else Discreet
    handler.setFormatter(make("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    everything, ours = logging.getLogger(), logging.getLogger("fairway")
    before = ours.level
    everything.addHandler(handler)
    ours.setLevel(logging.INFO if verbose else logging.WARNING)
    try:
        yield
    finally:
        everything.removeHandler(handler)
        ours.setLevel(before)


def _stray(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio would log itself, with exceptions and all they hold in the message."""
    error = context.get("exception")
    log.error("%s", context.get("message"), exc_info=error if isinstance(error, BaseException) else None)


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"


def _debugging() -> bool:
    return os.environ.get(DEBUG_VARIABLE, "") == "1"
