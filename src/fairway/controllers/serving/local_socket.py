"""A Unix socket on which a controller process answers other processes of the same user, without configuration.

`fairway explain` asks there why a placement waits. The folder belongs to the user and has mode 0700, so the kernel
authenticates: a process of the same user could read the memory of the controllers as well. The name of the socket
contains a hash of the hub's address and the process id: several processes may serve one hub.
"""

import hashlib
import json
import logging
import os
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from fairway.controllers.serving.debug import Inspector
from fairway.controllers.serving.endpoint import PlacementPathError, queue_answer
from fairway.controllers.serving.http_server import listening_on_socket

log: Final = logging.getLogger(__name__)

NOT_PRIVATE: Final = "folder {folder} must belong to this user and have mode 0700"
NOT_SERVED: Final = "local socket disabled: %s"
SUFFIX: Final = ".sock"
ASK_SECONDS: Final = 2.0


def socket_folder() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "fairway"
    return Path(tempfile.gettempdir()) / f"fairway-{os.getuid()}"


def _is_private(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _prefix(server: str) -> str:
    return f"{hashlib.sha256(server.encode()).hexdigest()[:16]}-"


def _sockets(server: str) -> Iterator[Path]:
    """Yield the sockets of all processes that serve a hub, also of processes that crashed."""
    folder = socket_folder()
    if _is_private(folder):
        yield from sorted(folder.glob(f"{_prefix(server)}*{SUFFIX}"))


@asynccontextmanager
async def serving_locally(server: str, inspector: Inspector | None) -> AsyncIterator[Path | None]:
    """Serve the queue state of placements. Without an inspector or a private folder, serve nothing."""
    if inspector is None:
        yield None
        return
    folder = socket_folder()
    path = folder / f"{_prefix(server)}{os.getpid()}{SUFFIX}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(folder):
            raise PermissionError(NOT_PRIVATE.format(folder=folder))
        _remove_stale(server)
        path.unlink(missing_ok=True)
        # Bound inside a folder of mode 0700: the mode of the socket itself is not checked by all systems.
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
    except OSError as error:  # the path may be too long, or the file system read-only
        log.info(NOT_SERVED, error)
        yield None
        return

    async def handle(request: web.BaseRequest) -> web.Response:
        try:
            return web.json_response(queue_answer(inspector, request.raw_path))
        except PlacementPathError as error:
            return web.json_response({"error": str(error)}, status=error.code)

    try:
        async with listening_on_socket(listener, handle):
            yield path
    finally:
        path.unlink(missing_ok=True)


def _remove_stale(server: str) -> None:
    for path in _sockets(server):
        pid = path.stem.rpartition("-")[2]
        with suppress(ValueError, PermissionError):
            # A process that crashed leaves its socket behind. If another process has its id by now, the socket stays,
            # and a client finds that nothing answers.
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                path.unlink(missing_ok=True)


class _LocalConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ASK_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(ASK_SECONDS)
        self.sock.connect(str(self._path))


def ask_locally(server: str, *, namespace: str, name: str) -> dict[str, Any] | None:
    """Return the queue state of a placement, of the leader if it runs here; None if no process here has it."""
    state: dict[str, Any] | None = None
    for path in _sockets(server):
        answer = _ask(path, f"/debug/queue/{quote(namespace, safe='')}/{quote(name, safe='')}")
        if answer is not None and (state is None or answer.get("leading")):
            state = answer
    return state


def _ask(path: Path, target: str) -> dict[str, Any] | None:
    connection = _LocalConnection(path)
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return answer if response.status == 200 and isinstance(answer, dict) else None
