"""A real Prometheus server for tests, which scrapes the test every second. ``prometheus_server`` takes its path."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from rigs.processes import LOOPBACK, POLL, Port, Process, StartFailed, ready

SCRAPE_INTERVAL: Final = "1s"
"""Also the timeout of a scrape: without a response its series are missing until the next one."""
NEVER_SEEN: Final = "{query} was not as awaited within {seconds:g} s; the last answer: {answer}"


class NeverSeen(AssertionError):
    """The expected values did not arrive in time."""


@dataclass(frozen=True, slots=True)
class PrometheusServer:
    url: str
    process: Process

    async def ask(self, query: str) -> Any:
        """Return the ``data`` of an instant query."""
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.post(f"{self.url}/api/v1/query", data={"query": query}) as response,
        ):
            return (await response.json())["data"]

    async def values(self, query: str, *, label: str = "cluster") -> dict[str, float]:
        """Return the values of an instant vector by a label."""
        answer = await self.ask(query)
        return {series["metric"].get(label, ""): float(series["value"][1]) for series in answer["result"]}

    async def until(
        self,
        query: str,
        awaited: Callable[[Mapping[str, float]], bool],
        *,
        label: str = "cluster",
        deadline: float = 120,
    ) -> Mapping[str, float]:
        """Query repeatedly until the values are as expected."""
        answer: Mapping[str, float] = {}
        try:
            async with asyncio.timeout(deadline):
                while True:
                    answer = await self.values(query, label=label)
                    if awaited(answer):
                        return answer
                    await asyncio.sleep(POLL)
        except TimeoutError:
            raise NeverSeen(NEVER_SEEN.format(query=query, seconds=deadline, answer=answer)) from None


@asynccontextmanager
async def prometheus_server(
    program: Path,
    *,
    folder: Path,
    targets: Sequence[str],
    scrape_interval: str = SCRAPE_INTERVAL,
    past: str = "",
) -> AsyncIterator[PrometheusServer]:
    """Scrape the ``targets`` (host:port), with files and log in ``folder``.

    ``past`` has earlier samples with timestamps, as OpenMetrics text; loading them needs promtool beside the program.
    Labels that a target sets are kept (``honor_labels``).
    """
    timing = {"scrape_interval": scrape_interval, "scrape_timeout": scrape_interval}
    job = {"job_name": "fleet", "honor_labels": True, "static_configs": [{"targets": list(targets)}]}
    configuration = folder / "prometheus.yml"
    # JSON is valid YAML.
    configuration.write_text(json.dumps({"global": timing, "scrape_configs": [job]}), encoding="utf-8")
    if past:
        await _remember(program.with_name("promtool"), past, folder=folder)
    with Port() as port:
        process = Process(
            [
                program,
                f"--config.file={configuration}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={LOOPBACK}:{port}",
                "--log.level=warn",
            ],
            log=folder / "prometheus.log",
        )
        try:
            url = f"http://{LOOPBACK}:{port}"
            await ready(f"{url}/-/ready", process)
            yield PrometheusServer(url, process)
        finally:
            await process.stop(grace=5)


async def _remember(promtool: Path, past: str, *, folder: Path) -> None:
    text = folder / "past.om"
    text.write_text(past, encoding="utf-8")
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", text, folder / "data"]
    run = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await run.communicate()
    if run.returncode:
        raise StartFailed(output.decode(errors="replace"))


class Exporter:
    """Gauges that a test sets, one series per set of labels, served in the text format of Prometheus."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, float | None]] = {}
        self.address = ""
        """host:port, while it serves."""

    def set(self, metric: str, value: float, *, at: float | None = None, **labels: str) -> None:
        """``at`` is the timestamp of the sample in seconds since 1970."""
        self._series[metric, tuple(sorted(labels.items()))] = (value, at)

    def drop(self, metric: str, **labels: str) -> None:
        del self._series[metric, tuple(sorted(labels.items()))]

    def text(self) -> str:
        lines = [
            f"{metric}{{{','.join(f'{key}={json.dumps(text)}' for key, text in labels)}}} {value}"
            + ("" if at is None else f" {round(at * 1000)}")
            for (metric, labels), (value, at) in sorted(self._series.items())
        ]
        return "\n".join([*lines, ""])

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=self.text(), content_type="text/plain")

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Exporter"]:
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        async with served(application) as address:
            self.address = address
            yield self


@asynccontextmanager
async def served(application: web.Application, *, ssl: Any = None) -> AsyncIterator[str]:
    """Serve on a free port of the loopback interface; yields host:port."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, LOOPBACK, 0, ssl_context=ssl)
        await site.start()
        port = runner.addresses[0][1]
        yield f"{LOOPBACK}:{port}"
    finally:
        await runner.cleanup()
