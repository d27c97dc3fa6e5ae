"""Handlers of health and metrics, for kubelets and Prometheus."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web

from fairway.controllers.serving.http_server import TEXT
from fairway.observe.meters import CONTENT_TYPE

log: Final = logging.getLogger(__name__)

Reasons = Callable[[], Sequence[str]]
"""Returns why the check fails; empty if it passes."""

OK: Final = "ok\n"
NOT_READY: Final = "not ready\n"
NOT_ALIVE: Final = "not alive\n"
REASON: Final = "- {reason}\n"
UNKNOWN: Final = "the check failed; see the log"
NO_SUCH_PAGE: Final = "404 page not found\n"
NO_SUCH_METHOD: Final = "405 method not allowed\n"

LIVE: Final = ("/livez", "/healthz")
READY: Final = "/readyz"
METRICS: Final = "/metrics"


def nothing() -> Sequence[str]:
    return ()


class ProbeHandlers:
    """The pages of one port. Without ``expose`` it has no metrics, without ``ready`` no health."""

    def __init__(
        self,
        *,
        ready: Reasons | None = None,
        alive: Reasons = nothing,
        expose: Callable[[], bytes] | None = None,
    ) -> None:
        self._pages: dict[str, Callable[[web.BaseRequest], web.Response]] = {}
        if ready is not None:
            self._pages[READY] = lambda request: _health(request, ready, NOT_READY)
            self._pages.update({path: lambda request: _health(request, alive, NOT_ALIVE) for path in LIVE})
        if expose is not None:
            self._pages[METRICS] = lambda _: web.Response(
                body=expose(), headers={"Content-Type": CONTENT_TYPE}
            )

    async def handle(self, request: web.BaseRequest) -> web.Response:
        page = self._pages.get(request.raw_path.partition("?")[0])
        if page is None:
            return web.Response(status=404, text=NO_SUCH_PAGE)
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text=NO_SUCH_METHOD, headers={"Allow": "GET, HEAD"})
        return page(request)


def _health(request: web.BaseRequest, reasons: Reasons, otherwise: str) -> web.Response:
    try:
        unready = tuple(reasons())
    except Exception:
        log.exception("health check failed")
        unready = (UNKNOWN,)
    if not unready:
        return web.Response(text=OK, headers={"Content-Type": TEXT})
    lines = (REASON.format(reason=" ".join(reason.split())) for reason in unready)
    text = otherwise + "".join(lines) if "verbose" in request.query else otherwise
    return web.Response(status=503, text=text, headers={"Content-Type": TEXT})
