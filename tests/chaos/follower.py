"""A program that runs an informer and reports its batches and its log."""

import asyncio
import logging
import sys

from chaos.control import ControlClient
from chaos.token_objects import CONFIG_MAPS, TokenObject
from kubewire.client.change import Added, Batch, Deleted, Updated
from kubewire.client.clock import Backoff
from kubewire.client.informer import Informer
from kubewire.client.rest import Client
from kubewire.client.transport import Retry

QUICK = Backoff(base=0.02, cap=0.2)


class LogPrinter(logging.Handler):
    def __init__(self, line: ControlClient) -> None:
        super().__init__(logging.INFO)
        self._line = line

    def emit(self, record: logging.LogRecord) -> None:
        self._line.send(log=record.getMessage())


def changes_of(batch: Batch[TokenObject]) -> list[list[str]]:
    changes = []
    for change in batch.changes:
        match change:
            case Added(new):
                changes.append(["added", *_identity(new)])
            case Updated(_, new):
                changes.append(["updated", *_identity(new)])
            case Deleted(old):
                changes.append(["deleted", *_identity(old)])
    return changes


def _identity(obj: TokenObject) -> tuple[str, ...]:
    meta = obj.metadata
    return (meta.namespace, meta.name, meta.uid, meta.resourceVersion)


async def _main(kubeconfig: str, path: str, namespace: str, name: str) -> None:
    line = await ControlClient.connect(path, name=name)
    log = logging.getLogger("kubewire.client")
    log.setLevel(logging.INFO)
    log.addHandler(LogPrinter(line))
    async with Client.from_kubeconfig(kubeconfig, retry=Retry(backoff=QUICK)) as client:
        # Watches of a few seconds, so that they also end in the ordinary way.
        informer = Informer(client, CONFIG_MAPS, namespace=namespace, watch_seconds=2.0, backoff=QUICK)
        informer.subscribe(
            lambda batch: line.send(epoch=batch.epoch, listed=batch.listed, changes=changes_of(batch))
        )
        await informer.run()


def main() -> None:
    asyncio.run(_main(*sys.argv[1:]))
