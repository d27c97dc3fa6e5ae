"""The audit log: user, verb, object, time and status of each request. It never contains bodies, hence no secrets."""

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from kubehub.request_info import RequestInfo
from kubehub.resource import Document
from kubehub.user import User
from kubewire.api.lease import format_micro_time

FLUSH_SECONDS: Final = 0.5
ROTATE_BYTES: Final = 100 * 1024 * 1024
KEPT: Final = 3
BACKLOG: Final = 64 * 1024 * 1024
"""Bytes that may wait for the disk."""


class Audit:
    """A thread writes the lines in batches; a crash may lose the last half second.

    When the disk is full or too slow, lines are dropped and the next written line counts them.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lines: list[bytes] = []
        self._size = 0
        self._dropped = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def on(self) -> bool:
        return self._path is not None

    def start(self) -> None:
        if self._path is not None:
            self._task = asyncio.create_task(self._flush())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._write(self._take_lines())

    def record(
        self,
        *,
        id_: str,
        user: User | None,
        impersonated: User | None,
        verb: str,
        uri: str,
        target: RequestInfo | None,
        code: int,
        reason: str,
        address: str,
        agent: str,
        received: datetime,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        line: Document = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": id_,
            "stage": "ResponseComplete",
            "requestURI": uri,
            "verb": verb,
            "user": _user_fields(user),
            "sourceIPs": [address],
            "userAgent": agent,
            "responseStatus": {"metadata": {}, "code": code} | ({"reason": reason} if reason else {}),
            "requestReceivedTimestamp": format_micro_time(received),
            "stageTimestamp": format_micro_time(datetime.now(UTC)),
        }
        if impersonated is not None:
            line["impersonatedUser"] = _user_fields(impersonated)
        if target is not None and target.plural:
            reference = {
                "resource": target.plural,
                "namespace": target.namespace,
                "name": target.name,
                "apiGroup": target.group,
                "apiVersion": target.version,
                "subresource": target.subresource,
            }
            line["objectRef"] = {key: value for key, value in reference.items() if value}
        if self._size >= BACKLOG:
            self._dropped += 1
            return
        noted = dict(annotations or {})
        if self._dropped:
            noted["fairway.dev/lines-dropped-before"] = str(self._dropped)
            self._dropped = 0
        if noted:
            line["annotations"] = noted
        written = _encode(line)
        self._size += len(written)
        self._lines.append(written)

    def _take_lines(self) -> list[bytes]:
        taken, self._lines, self._size = self._lines, [], 0
        return taken

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            if taken := self._take_lines():
                # Write what is queued even if the caller was cancelled.
                await asyncio.shield(asyncio.to_thread(self._write, taken))

    def _write(self, taken: list[bytes]) -> None:
        if self._path is None or not taken:
            return
        try:
            with open(self._path, "ab", opener=_open_private) as file:
                self._path.chmod(0o600)
                file.writelines(taken)
                size = file.tell()
            if size > ROTATE_BYTES:
                self._rotate()
        except OSError:
            self._dropped += len(taken)

    def _rotate(self) -> None:
        assert self._path is not None
        for age in range(KEPT, 0, -1):
            older = self._path.with_suffix(f"{self._path.suffix}.{age}")
            newer = self._path if age == 1 else self._path.with_suffix(f"{self._path.suffix}.{age - 1}")
            if newer.exists():
                newer.replace(older)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _encode(line: Document) -> bytes:
    try:
        return msgspec.json.encode(line) + b"\n"
    except UnicodeEncodeError:
        # A name that isn't valid text must not keep the request out of the log.
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _user_fields(user: User | None) -> Document:
    if user is None:
        return {}
    return {"username": user.name, "groups": list(user.groups)} | ({"uid": user.uid} if user.uid else {})
