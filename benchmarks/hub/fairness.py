"""Response times of an administrator and a controller while a user without rights keeps 16 connections busy.

    python -m benchmarks.hub.fairness                       every attack for 30 seconds; seven minutes
    python -m benchmarks.hub.fairness --only numbers        attacks whose name contains this
    python -m benchmarks.hub.fairness --seconds 5           for 5 seconds each

The hub, the attacker and the prober are separate processes that share the machine's cores. The prober reads a
namespace as administrator, over one connection and over a new one each time, and renews a Lease as a controller, with
pauses of at most 50 ms. A lease is lost if two renewals are more than 10 seconds apart, client-go's default deadline.
A renewal is a write, so it waits for the disk, too: "disk sync" is a write and fsync of 4 KB on the same disk by a
thread of the prober. ``TMPDIR=/dev/shm`` puts the data into memory.
"""

import argparse
import asyncio
import json
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from benchmarks.hub import attacks
from benchmarks.hub.contender import Contender, embedded
from benchmarks.measure import machine, percentile, table, write_json

ADMIN, CONTROLLER, STRANGER = "admin-token", "controller-token", "stranger-token"
TOKENS: Final = "\n".join(
    (
        f'{ADMIN},admin,admin,"system:masters"',
        f"{CONTROLLER},controller,controller",
        f"{STRANGER},stranger,stranger",
        "",
    )
)
CONNECTIONS: Final = 16
PAUSE: Final = 0.05
RENEW_DEADLINE: Final = 10.0
NAMESPACE: Final = "/api/v1/namespaces/default"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
QUIET: Final = "no attack"


class Prober:
    """Sends the requests whose response times are measured."""

    def __init__(self, url: str, *, disk: Path) -> None:
        self._url = url
        self._disk = disk
        self._trust = ssl.create_default_context()
        self._trust.check_hostname, self._trust.verify_mode = False, ssl.CERT_NONE
        self.waits: dict[str, list[float]] = {"get": [], "connect and get": [], "renew": [], "sync": []}
        self.lost = self.failed = 0

    async def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        kept = aiohttp.TCPConnector(ssl=self._trust)
        fresh = aiohttp.TCPConnector(ssl=self._trust, force_close=True)
        async with (
            aiohttp.ClientSession(connector=kept) as one,
            aiohttp.ClientSession(connector=fresh) as new,
        ):
            await asyncio.gather(
                self._repeat("get", until, lambda: self._get(one)),
                self._repeat("connect and get", until, lambda: self._get(new)),
                self._renew(one, until),
                self._repeat("sync", until, lambda: asyncio.to_thread(self._sync)),
            )

    def _sync(self) -> bool:
        with self._disk.open("ab", buffering=0) as file:
            file.write(bytes(4096))
            os.fsync(file.fileno())
        return True

    async def _repeat(self, name: str, until: float, call: Callable[[], Awaitable[bool]]) -> None:
        while (begun := time.monotonic()) < until:
            self.failed += not await call()
            self.waits[name].append(time.monotonic() - begun)
            await asyncio.sleep(PAUSE)

    async def _get(self, session: aiohttp.ClientSession) -> bool:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        async with session.get(self._url + NAMESPACE, headers=headers) as answer:
            await answer.read()
            return answer.status == 200

    async def _renew(self, session: aiohttp.ClientSession, until: float) -> None:
        headers = {"Authorization": f"Bearer {CONTROLLER}"}
        async with session.get(f"{self._url}{LEASES}/controller", headers=headers) as answer:
            lease = await answer.json()
        renewed = time.monotonic()

        async def renew() -> bool:
            nonlocal lease, renewed
            lease["spec"]["leaseTransitions"] = lease["spec"].get("leaseTransitions", 0) + 1
            async with session.put(f"{self._url}{LEASES}/controller", json=lease, headers=headers) as answer:
                if answer.status != 200:
                    return False
                lease = await answer.json()
                self.lost += time.monotonic() - renewed > RENEW_DEADLINE
                renewed = time.monotonic()
                return True

        await self._repeat("renew", until, renew)


async def prepare(hub: Contender) -> None:
    """Create the Lease, and a controller that may only renew it."""
    rule = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "update", "patch"],
    }
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "controller"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "controller"}
    named = {"metadata": {"name": "controller"}}
    await hub.call("POST", f"{ROLES}/roles", named | {"rules": [rule]})
    await hub.call("POST", f"{ROLES}/rolebindings", named | {"roleRef": reference, "subjects": [subject]})
    await hub.call("POST", LEASES, named | {"spec": {"holderIdentity": "controller"}})


async def child(*arguments: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{arguments[0]} failed with code {process.returncode}")
    return json.loads(output)


async def measure(hub: Contender, attack: str, *, seconds: float, disk: Path) -> dict[str, Any]:
    probing = child(
        "benchmarks.hub.fairness", "--probe", hub.url, "--disk", str(disk), "--seconds", str(seconds)
    )
    if attack == QUIET:
        return {"attack": attack, "answers": {}, **await probing}
    attacking = child(
        "benchmarks.hub.attacks",
        attack,
        "--port",
        str(urlsplit(hub.url).port),
        "--token",
        STRANGER,
        "--connections",
        str(CONNECTIONS),
        "--seconds",
        str(seconds),
    )
    answers, probed = await asyncio.gather(attacking, probing)
    return {"attack": attack, "answers": answers, **probed}


def shown(results: list[dict[str, Any]]) -> str:
    """Format response times in milliseconds, median and worst."""
    rows = [["", "GET", "connect + GET", "lease renewal", "disk sync", "leases lost", "failed", "answers"]]
    for result in results:
        waits = [
            f"{1e3 * percentile(samples, 0.5):.0f} / {1e3 * max(samples):.0f}"
            for samples in result["waits"].values()
        ]
        answers = ", ".join(f"{code}: {count:,}" for code, count in sorted(result["answers"].items()))
        rows.append([result["attack"], *waits, str(result["lost"]), str(result["failed"]), answers])
    return table(rows)


async def probe(url: str, seconds: float, *, disk: Path) -> None:
    prober = Prober(url, disk=disk)
    await prober.run(seconds)
    print(json.dumps({"waits": prober.waits, "lost": prober.lost, "failed": prober.failed}))


async def run(*, seconds: float, only: str) -> list[dict[str, Any]]:
    results = []
    with tempfile.TemporaryDirectory(prefix="fairway-bench-") as folder:
        tokens = Path(folder) / "tokens.csv"
        tokens.write_text(TOKENS, encoding="utf-8")
        async with embedded(Path(folder), "--token-file", str(tokens)) as hub:
            await prepare(hub)
            for attack in (QUIET, *(name for name in attacks.NAMES if only in name)):
                print(f"  {attack} …", file=sys.stderr, flush=True)
                results.append(await measure(hub, attack, seconds=seconds, disk=Path(folder) / "sync"))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hub.fairness",
        description=(__doc__ or "").split("\n\n")[0],
        epilog=(__doc__ or "").split("\n\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each attack")
    parser.add_argument("--only", default="", metavar="TEXT", help="attacks whose name contains TEXT")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE as JSON")
    parser.add_argument("--probe", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--disk", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.probe:
        asyncio.run(probe(asked.probe, asked.seconds, disk=asked.disk))
        return
    results = asyncio.run(run(seconds=asked.seconds, only=asked.only))
    print(shown(results))
    print(
        f"\n{CONNECTIONS} connections, {asked.seconds:.0f} s each; milliseconds, median / worst; {machine()}"
    )
    if asked.json:
        write_json(asked.json, {"benchmark": "fairness", "results": results})


if __name__ == "__main__":
    main()
