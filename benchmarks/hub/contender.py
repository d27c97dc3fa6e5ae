"""A hub as a separate process, and its client."""

import asyncio
import base64
import json
import os
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from rigs.kubernetes import HUB, Tools, real_hub


@dataclass(kw_only=True)
class Contender:
    """A running hub and its client."""

    name: str
    kubeconfig: Path
    pids: Sequence[int]
    started: float
    """Seconds from the start of the first process until the hub is ready."""
    session: aiohttp.ClientSession = field(init=False)
    url: str = field(init=False)

    async def __aenter__(self) -> "Contender":
        document = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))
        described, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        trust = ssl.create_default_context(
            cadata=base64.b64decode(described["certificate-authority-data"]).decode()
            if "certificate-authority-data" in described
            else Path(described["certificate-authority"]).read_text(encoding="utf-8")
        )
        if "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile() as pair:
                pair.write(base64.b64decode(user["client-certificate-data"]))
                pair.write(base64.b64decode(user["client-key-data"]))
                pair.flush()
                trust.load_cert_chain(pair.name)
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self.url = described["server"]
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust, limit=0), headers=headers, auto_decompress=False
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def call(
        self, method: str, path: str, body: Any = None, *, type_: str = "application/json"
    ) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        async with self.session.request(
            method, self.url + path, data=data, headers={"Content-Type": type_, "Accept-Encoding": "identity"}
        ) as answer:
            payload = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{self.name}: {method} {path}: {answer.status} {payload[:300]!r}")
            return payload

    def resident(self) -> int:
        """Return the memory of all processes of the hub in bytes."""
        pages = sum(
            int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) for pid in self.pids
        )
        return pages * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def embedded(folder: Path, *options: str) -> AsyncIterator[Contender]:
    """``options`` are added to those of `fairway hub`."""
    kubeconfig = folder / "kubeconfig"
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "fairway",
        "hub",
        "--no-crds",
        "--port",
        "0",
        "--data",
        str(folder / "data"),
        "--kubeconfig-out",
        str(kubeconfig),
        *options,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        while b"ready" not in (line := await process.stdout.readline()):
            if not line:
                raise RuntimeError("the embedded hub ended before it was ready")
        started = time.perf_counter() - begun
        async with Contender(
            name="embedded", kubeconfig=kubeconfig, pids=(process.pid,), started=started
        ) as contender:
            yield contender
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@asynccontextmanager
async def real(folder: Path) -> AsyncIterator[Contender]:
    tools = Tools.find(*HUB)
    begun = time.perf_counter()
    async with real_hub(tools, folder=folder / "real", fsync=True) as hub:
        started = time.perf_counter() - begun
        async with Contender(
            name="kube-apiserver + etcd",
            kubeconfig=hub.kubeconfig,
            pids=tuple(hub.pids.values()),
            started=started,
        ) as contender:
            yield contender
