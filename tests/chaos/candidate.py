"""A replica that writes to a ledger while it leads.

It reports its actions as messages. On ``stop`` it stops itself with SIGSTOP between the confirmation of its lease and
its write. After SIGCONT it acts according to the value of ``stop``:

- ``careful``: it checks the clock once more;
- ``late``: it sends the write, as if it had been stopped within the system call.
"""

import asyncio
import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any

from chaos.control import ControlClient
from chaos.token_objects import TokenObject
from kubewire.api.resource import Resource
from kubewire.client.clock import Backoff
from kubewire.client.errors import Conflict, KubeError
from kubewire.client.fence import Fence, LeaderError, Lost
from kubewire.client.leader import Elector
from kubewire.client.lease import HubLease, Timing
from kubewire.client.rest import Client
from kubewire.client.transport import Retry

LEDGER = "ledger"
HOLDER, TOKEN, NUMBER = "fairway.dev/holder", "fairway.dev/token", "fairway.dev/number"
CONFIG_MAPS = Resource(
    group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True, type=TokenObject
)
TIMING = Timing(lease=6, renew=5.0, retry=0.25)
"""So long that who is only slow goes on leading."""
PACE = 0.03
"""Seconds between writes."""


@dataclass(slots=True, kw_only=True)
class Candidate:
    name: str
    client: Client
    namespace: str
    line: ControlClient
    stop: str = ""
    """How it is to stop itself at the next write; empty for not at all."""
    sending: "asyncio.Task[TokenObject] | None" = None

    async def run(self) -> None:
        async with Client(self.client.connection, timeout=TIMING.request) as own:
            elector = Elector(
                HubLease(own, namespace=self.namespace, name="leader"),
                identity=self.name,
                timing=TIMING,
                on_started=lambda fence: self._lead(elector, fence),
                on_stopped=lambda: self.line.send(stopped=True),
            )
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, elector.stop)
            listening = asyncio.create_task(self._listen())
            await elector.run()
            listening.cancel()

    async def _listen(self) -> None:
        while True:
            self.stop = (await self.line.receive())["stop"]

    async def _lead(self, elector: Elector, fence: Fence) -> None:
        self.line.send(leads=fence.token)
        while True:
            try:
                await self._write(elector)
            except (Lost, asyncio.CancelledError) as error:
                self.line.send(lost=str(error), token=fence.token)
                raise
            except (LeaderError, KubeError) as error:
                self.line.send(failed=str(error))
            await asyncio.sleep(PACE)

    async def _write(self, elector: Elector) -> None:
        ledger = await self.client.get(CONFIG_MAPS, LEDGER, namespace=self.namespace)
        async with elector.guard() as fence:
            begun = time.monotonic()
            stop, self.stop = self.stop, ""
            if stop:
                self.line.send(inside=fence.token)
                os.kill(os.getpid(), signal.SIGSTOP)
                if stop == "late":
                    await self._late(ledger, fence)
                fence.ensure()
            written = await self._send(ledger, fence)
        self.line.send(
            wrote=int(written.metadata.resourceVersion),
            token=fence.token,
            begun=begun,
            ended=time.monotonic(),
        )

    async def _late(self, ledger: TokenObject, fence: Fence) -> None:
        """The end of the term cancels the wait for the response, but not the request that was sent."""

        def report(sending: "asyncio.Task[TokenObject]") -> None:
            refused = isinstance(sending.exception(), Conflict)
            self.line.send(late="refused" if refused else "written", token=fence.token)

        self.sending = asyncio.create_task(self._send(ledger, fence))
        self.sending.add_done_callback(report)
        await asyncio.shield(self.sending)

    async def _send(self, ledger: TokenObject, fence: Fence) -> TokenObject:
        meta = ledger.metadata
        annotations: dict[str, Any] = {
            HOLDER: fence.holder,
            TOKEN: str(fence.token),
            NUMBER: str(int(meta.annotations.get(NUMBER, "0")) + 1),
        }
        document = {
            "metadata": {"name": LEDGER, "resourceVersion": meta.resourceVersion, "annotations": annotations}
        }
        return await self.client.update(CONFIG_MAPS, LEDGER, document, namespace=self.namespace)


async def _main(kubeconfig: str, path: str, namespace: str, name: str) -> None:
    line = await ControlClient.connect(path, name=name)
    quick = Retry(backoff=Backoff(base=0.02, cap=0.2))
    async with Client.from_kubeconfig(kubeconfig, retry=quick) as client:
        await Candidate(name=name, client=client, namespace=namespace, line=line).run()
    await line.flush()


def main() -> None:
    asyncio.run(_main(*sys.argv[1:]))
