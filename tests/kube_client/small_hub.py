"""A hub over real HTTP that keeps objects of any kind: create, read, merge-patch with versions. No faults."""

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Document = dict[str, Any]


class SmallHub:
    def __init__(self) -> None:
        self.objects: dict[str, Document] = {}
        self.bodies: list[tuple[str, str, Document]] = []
        """Method, path and body of every write."""
        self._versions = itertools.count(100)

    async def serve(self, request: web.Request) -> web.Response:
        path = request.path
        if request.method == "GET":
            return self._answer(path)
        body = json.loads(await request.text())
        self.bodies.append((request.method, path, body))
        if request.method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                return _refusal(409, "AlreadyExists")
            body["metadata"]["uid"] = f"uid-of-{body['metadata']['name']}"
            return self._store(path, body)
        if path not in self.objects:
            return _refusal(404, "NotFound")
        assert request.content_type == "application/merge-patch+json"
        old = self.objects[path]
        wanted = body.get("metadata", {}).get("resourceVersion", old["metadata"]["resourceVersion"])
        if wanted != old["metadata"]["resourceVersion"]:
            return _refusal(409, "Conflict")
        return self._store(path, merged(old, body))

    def _store(self, path: str, document: Document) -> web.Response:
        document["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[path] = document
        return self._answer(path)

    def _answer(self, path: str) -> web.Response:
        document = self.objects.get(path)
        return _refusal(404, "NotFound") if document is None else web.json_response(document)


def merged(old: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _refusal(code: int, reason: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "message": reason, "reason": reason, "code": code}
    return web.json_response(body, status=code)


@asynccontextmanager
async def small_hub() -> AsyncIterator[tuple[SmallHub, str]]:
    """The hub and its address."""
    hub = SmallHub()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", hub.serve)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield hub, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
