"""Count the requests of this process, and their duration, by purpose."""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any
from unittest.mock import patch

from kubewire.client.transport import Response, Transport

_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete", "GET": "get"}
_DECIDING = ("placementdecisions", "placements")


@dataclass(slots=True)
class Tally:
    count: int = 0
    seconds: float = 0.0
    """Total seconds from request to response."""
    failed: int = 0


class Requests:
    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}
        self.first_write: float | None = None
        """Time at which the first write of a decision or a placement was sent."""
        self.last_write: float | None = None
        """Time of the response to the last one."""

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count requests within the block, without watches."""
        real: Callable[..., Awaitable[Response]] = Transport.request

        async def request(transport: Transport, method: str, path: str, **options: Any) -> Response:
            name = purpose(method, path)
            tally = self.tallies.get(name)
            if tally is None:
                tally = self.tallies[name] = Tally()
            began = time.monotonic()
            decides = method != "GET" and name.split()[1].startswith(_DECIDING)
            if decides and self.first_write is None:
                self.first_write = began
            try:
                return await real(transport, method, path, **options)
            except BaseException:
                tally.failed += 1
                raise
            finally:
                ended = time.monotonic()
                tally.count += 1
                tally.seconds += ended - began
                if decides:
                    self.last_write = ended

        with patch.object(Transport, "request", request):
            yield

    def document(self) -> dict[str, Any]:
        return {
            "requests": {name: asdict(tally) for name, tally in self.tallies.items()},
            "first_write": self.first_write,
            "last_write": self.last_write,
        }


def purpose(method: str, path: str) -> str:
    """Return verb and resource, such as ``patch placementdecisions/status``."""
    parts = path.split("/")
    rest = parts[3:] if parts[1] == "api" else parts[4:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    resource = f"{rest[0]}/{rest[2]}" if len(rest) > 2 else rest[0]
    return f"{_VERBS.get(method, method)} {resource}"
