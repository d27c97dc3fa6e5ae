"""An API server that sends any given document, also invalid ones."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from kubewire.client import Client, Connection


@asynccontextmanager
async def document_server(content: Mapping[str, Sequence[Mapping[str, Any]]]) -> AsyncIterator[Client]:
    """``content`` by path. Lists only: a watch stays silent until the end."""
    over = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if "sendInitialEvents" in request.query:
            return web.json_response(
                {"kind": "Status", "status": "Failure", "reason": "BadRequest", "code": 400}, status=400
            )
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await over.wait()
            return response
        items = [
            {**item, "metadata": {**item["metadata"], "resourceVersion": "1"}}
            for item in content[request.path]
        ]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    app = web.Application()
    for path in content:
        app.router.add_get(path, answer)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with Client(Connection(server=f"http://{host}:{port}")) as client:
            yield client
    finally:
        over.set()
        await runner.cleanup()
