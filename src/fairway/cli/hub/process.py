"""Run the hub until it is stopped, with companions such as controllers.

Companions start when the hub responds, and stop before it.

A hub's data is secret: its files are readable by their owner only, and neither its log nor its error messages quote an
exception, whose text may contain object data. `FAIRWAY_DEBUG=1` shows them.
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
import sys
import tempfile
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from fairway.cli import signals
from fairway.cli.errors import DEBUG_VARIABLE, BadInputError, CommandError
from fairway.cli.files.export import require_folder
from fairway.cli.hub.errors import store_errors
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.text import say
from fairway.controllers.serving.address import is_not_local
from fairway.observe.logs import OWN_LOGGERS
from kubehub import RENEWAL_SECONDS, Hub, Settings, StaticTokens, TokenFileFault, running
from kubehub.backup import private_files
from kubewire.documents.reader import yaml_document

log = logging.getLogger(__name__)

KUBECONFIG: Final = "admin.kubeconfig"

BUSY: Final = (
    "port {port} of {host} is in use; stop the process that listens there, or set --port (0 picks a free "
    "port)"
)
NOT_ALLOWED: Final = "permission denied to listen on {host} port {port}; use a port above 1023 with --port"
NOT_HERE: Final = "cannot listen on {host}: not an address of this machine; set --host"
CANNOT_LISTEN: Final = "cannot listen on {host} port {port}: {reason}"
CANNOT_WRITE: Final = "cannot write {path}: {reason}"
CANNOT_WRITE_YET: Final = "cannot write %s, retrying: %s"
BAD_NAME: Final = "--name {name!r} is neither a host name nor an address"
BAD_TOKENS: Final = "--token-file {path}: {reason}"
NOT_TEXT: Final = "not a UTF-8 text file"
FOREIGN_KUBECONFIG: Final = (
    "--kubeconfig-out {path}: the file is not a kubeconfig written by a hub and would be overwritten; "
    "name another file"
)
FAILED: Final = (
    "the hub failed: {kind} in {place}. This is a bug in Fairway. Acknowledged writes are kept; set "
    f"{DEBUG_VARIABLE}=1 for details"
)

READY: Final = "hub ready at {url}, {kept}"
READ_ONLY: Final = "hub read-only at {url}, {kept}; it accepts no writes: {reason}"
KEPT: Final = "data in {folder}"
NOT_KEPT: Final = "in memory: data is lost when it stops"
EVERYWHERE: Final = (
    "It listens on all addresses of this machine. Add the host name that remote clients use with --name."
)
HOW_TO_STOP: Final = "Stop it with Ctrl-C."
STOPPING: Final = "stopping"

_NAME: Final = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?")


class HubFailed(CommandError):
    """An unexpected exception in the hub."""


async def _wait_forever() -> None:
    await asyncio.Event().wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What to print about a companion of a ready hub: its ``state``, and ``advice`` below the line with the kubeconfig.

    ``facts`` are added to the document of -o yaml and json. ``over`` returns or raises when the companion ends.
    """

    state: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    over: Callable[[], Awaitable[None]] = _wait_forever


Companion = Callable[[Hub, Path], AbstractAsyncContextManager[Announcement]]
"""Runs together with a hub; called with the hub and the administrator's kubeconfig."""


def _no_companion(settings: Settings) -> Companion:
    kinds = "managedclusters" if settings.definitions else "namespaces"

    @asynccontextmanager
    async def nothing(_hub: Hub, _kubeconfig: Path) -> AsyncIterator[Announcement]:
        yield Announcement(advice=(f"  kubectl get {kinds}",))

    return nothing


def serve(
    settings: Settings,
    *,
    kubeconfig: Path | None,
    output: OutputFormat,
    verbose: bool,
    companion: Companion | None = None,
) -> None:
    """Run until stopped by a signal."""
    _check(settings, kubeconfig)
    with private_files(), _logging(verbose=verbose), _place(settings.folder, kubeconfig) as path:
        try:
            with store_errors():
                asyncio.run(_serve(settings, path, output, companion or _no_companion(settings)))
        except OSError as error:
            raise _explain(error, settings) from error
        except (CommandError, BrokenPipeError):
            raise
        except Exception as error:
            if _debugging():
                raise
            kind, place = type(error).__qualname__, _where(error)
            # Without the cause: its text may contain object data.
            raise HubFailed(FAILED.format(kind=kind, place=place)) from None


def _check(settings: Settings, kubeconfig: Path | None) -> None:
    """Check the options before anything is created."""
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
        # The audit log only counts failed writes.
        try:
            with private_files(), settings.audit.open("ab"):
                pass
        except OSError as error:
            raise BadInputError(CANNOT_WRITE.format(path=settings.audit, reason=error.strerror)) from None
    if kubeconfig is not None:
        require_folder(kubeconfig, option="--kubeconfig-out")
    if kubeconfig is not None and kubeconfig.exists() and not _is_ours(kubeconfig):
        raise BadInputError(FOREIGN_KUBECONFIG.format(path=kubeconfig))


def _is_address(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(text))
    return False


def _is_ours(path: Path) -> bool:
    """Whether a file is empty or a kubeconfig written by a hub."""
    try:
        document = yaml_document(path.read_bytes())
        return document is None or [cluster["name"] for cluster in document.value["clusters"]] == ["fairway"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


@contextlib.contextmanager
def _place(folder: Path | None, chosen: Path | None) -> Iterator[Path]:
    """Yield the path of the administrator's kubeconfig. A temporary one is deleted when the hub stops."""
    if chosen is not None:
        yield chosen.absolute()
    elif folder is not None:
        yield folder.absolute() / KUBECONFIG
    else:
        with tempfile.TemporaryDirectory(prefix="fairway-hub-") as made:
            yield Path(made, KUBECONFIG)


async def _serve(settings: Settings, kubeconfig: Path, output: OutputFormat, companion: Companion) -> None:
    asyncio.get_running_loop().set_exception_handler(_log_loop_error)
    with signals.listening() as stop:
        async with running(settings) as hub:
            # Schemas and stored objects live as long as the process; collecting them would block the loop for 50 ms.
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
                running_companion = _run_companion(hub, settings, kubeconfig, output, companion)
                await signals.until(stop, running_companion, on_stop=lambda: _say_stopping(output))
            finally:
                keeping.cancel()
    log.info("stopped")


async def _keep_kubeconfig(hub: Hub, path: Path) -> None:
    """Rewrite the kubeconfig when the hub renewed its certificate, and retry while the disk is full."""
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


async def _run_companion(
    hub: Hub, settings: Settings, kubeconfig: Path, output: OutputFormat, companion: Companion
) -> None:
    async with companion(hub, kubeconfig) as announcement:
        _announce(hub, settings, kubeconfig, output, announcement)
        await announcement.over()


def _say_stopping(output: OutputFormat) -> None:
    log.info(STOPPING)
    if output == "table":
        say(STOPPING)
        sys.stdout.flush()


def _announce(
    hub: Hub, settings: Settings, kubeconfig: Path, output: OutputFormat, announcement: Announcement
) -> None:
    folder = settings.folder.absolute() if settings.folder else None
    log.info("process %d serves %s", os.getpid(), hub.url)
    if output == "table":
        kept = KEPT.format(folder=folder) if folder else NOT_KEPT
        reason = hub.store.read_only
        say((READ_ONLY if reason else READY).format(url=hub.url, kept=kept, reason=reason))
        if settings.host in ("", "0.0.0.0", "::"):
            say(EVERYWHERE)
        for line in (
            *announcement.state,
            f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}",
            *announcement.advice,
        ):
            say(line)
        say(HOW_TO_STOP)
    else:
        document = {
            "url": hub.url,
            "kubeconfig": str(kubeconfig),
            "data": str(folder) if folder else None,
            "pid": os.getpid(),
            **announcement.facts,
        }
        emit((), columns={}, output=output, document=document)
    # A reader of a pipe waits for these lines.
    sys.stdout.flush()


def _explain(error: OSError, settings: Settings) -> CommandError:
    host, port = settings.host, settings.port
    if error.filename is not None:
        return BadInputError(CANNOT_WRITE.format(path=error.filename, reason=error.strerror))
    if error.errno == errno.EADDRINUSE:
        return BadInputError(BUSY.format(host=host, port=port))
    if error.errno == errno.EACCES:
        return BadInputError(NOT_ALLOWED.format(host=host, port=port))
    if is_not_local(error):
        return BadInputError(NOT_HERE.format(host=host))
    return BadInputError(CANNOT_LISTEN.format(host=host, port=port, reason=error.strerror or error))


# Logging


class SafeFormatter(logging.Formatter):
    """Formats tracebacks without the messages of exceptions, which may contain object data."""

    def format(self, record: logging.LogRecord) -> str:
        # Another handler may have cached the complete text.
        record = copy.copy(record)
        record.exc_text = None
        return super().format(record)

    def formatException(  # noqa: N802  # logging's name
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        kind, _, trace = ei
        return "".join(traceback.format_tb(trace)) + (kind.__qualname__ if kind else "")


@contextlib.contextmanager
def _logging(*, verbose: bool) -> Iterator[None]:
    """Log warnings to stderr; with ``verbose``, also Fairway's info messages."""
    handler = logging.StreamHandler()
    make = logging.Formatter if _debugging() else SafeFormatter
    handler.setFormatter(make("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    levels = {logger: logger.level for logger in map(logging.getLogger, OWN_LOGGERS)}
    root.addHandler(handler)
    for logger in levels:
        logger.setLevel(logging.INFO if verbose else logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for logger, level in levels.items():
            logger.setLevel(level)


def _log_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log errors of the event loop without the text of exceptions, which asyncio would include."""
    error = context.get("exception")
    log.error("%s", context.get("message"), exc_info=error if isinstance(error, BaseException) else None)


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"


def _debugging() -> bool:
    return os.environ.get(DEBUG_VARIABLE, "") == "1"
