"""A hub to run controllers on, embedded or real, with OCM's kinds and a garbage collector."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairway.api import crds
from fairway.testing.hub import hub_in_thread
from kubewire.client import Client, Connection, KubeError, load
from rigs.kubernetes import CONTROLLERS, Tools, background, controller_manager, real_hub
from rigs.processes import POLL

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
START_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class HubUnderTest:
    """``kind`` is only for naming; no assertion may depend on it."""

    kind: str
    kubeconfig: Path
    """The administrator's kubeconfig."""

    @property
    def administrator(self) -> Connection:
        return load(self.kubeconfig).context()


@contextmanager
def hub_of(
    kind: str, *, folder: Path, tools: Callable[[], Tools], bare: bool = False
) -> Iterator[HubUnderTest]:
    """``kind`` is ``embedded`` or ``real``; ``tools`` is called for the latter. A bare one serves no kind of OCM."""
    if kind == "embedded":
        with hub_in_thread(folder=folder, definitions=() if bare else crds()) as embedded:
            yield HubUnderTest(kind=kind, kubeconfig=embedded.kubeconfig)
        return
    with background(real_hub(tools(), folder=folder)) as real:
        # Define the kinds first: the garbage collector discovers new ones only every half minute.
        if not bare:
            asyncio.run(define(real.kubeconfig))
        upkeep = controller_manager(
            tools(),
            kubeconfig=real.kubeconfig,
            folder=folder,
            controllers=CONTROLLERS,
            leader_elect=False,
            signer=real.authority.pair,
            service_account_key=real.service_account_key,
        )
        with background(upkeep):
            yield HubUnderTest(kind=kind, kubeconfig=real.kubeconfig)


async def define(kubeconfig: Path) -> None:
    async with Client.from_kubeconfig(kubeconfig) as client:
        for definition in crds():
            await client.request("POST", DEFINITIONS, body=definition)
        async with asyncio.timeout(START_SECONDS):
            for definition in crds():
                spec = definition["spec"]
                for version in spec["versions"]:
                    await _served(
                        client, f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
                    )


async def _served(client: Client, path: str) -> None:
    """Wait until a new kind is served; no condition reports that."""
    while True:
        try:
            await client.request("GET", path)
        except KubeError:
            await asyncio.sleep(POLL)
        else:
            return
