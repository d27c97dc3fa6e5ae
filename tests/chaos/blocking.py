"""Plain HTTP to a hub for tests that have no event loop."""

import json
import ssl
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from clients.talk import context

DEADLINE = 120.0
"""Seconds after which an answer that hasn't come won't come."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: Document

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))


class Hub:
    def __init__(self, kubeconfig: Path) -> None:
        url, self._context, token = context(kubeconfig)
        self._address = urlsplit(url)
        self._headers = {"User-Agent": "chaos/1", "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection = self.connect()

    def connect(self) -> HTTPSConnection:
        context: ssl.SSLContext = self._context
        host, port = self._address.hostname or "", self._address.port
        return HTTPSConnection(host, port, context=context, timeout=DEADLINE)

    def call(self, method: str, path: str, body: Any = None, *, type_: str = "application/json") -> Answer:
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers if data is None else {**self._headers, "Content-Type": type_}
        self._connection.request(method, path, body=data, headers=headers)
        answer = self._connection.getresponse()
        text = answer.read()
        try:
            return Answer(answer.status, json.loads(text))
        except ValueError:  # a path that nothing is served at
            return Answer(answer.status, {})

    def watch(self, path: str) -> "Feed":
        connection = self.connect()
        connection.request("GET", path, headers=self._headers)
        return Feed(connection)

    def close(self) -> None:
        self._connection.close()


class Feed:
    """A watch, read line by line."""

    def __init__(self, connection: HTTPSConnection) -> None:
        self._connection = connection
        self._answer = connection.getresponse()
        self.code = self._answer.status

    def next(self) -> Document:
        """Wait for the next event, also a bookmark."""
        line = self._answer.readline()
        assert line, "the watch ended"
        event: Document = json.loads(line)
        return event

    def close(self) -> None:
        self._answer.close()
        self._connection.close()
