"""The end of a membership: what was made on the managed cluster is taken away again."""

from collections.abc import AsyncIterator
from typing import Final

from fairway.klusterlet import names
from fairway.klusterlet.grounds import withdraw
from fairway.klusterlet.kinds import SECRETS
from fairway.kube import Client, NotFound

REMOVED: Final = "{what} is removed"


async def leave(cluster: Client, *, name: str) -> AsyncIterator[str]:
    """Tells what it removed, line by line. Raises KubeErrors; what was not removed is, the next time."""
    labels = f"{names.JOINED_LABEL}={name}"
    for secret in (await cluster.list(SECRETS, labels=labels)).items:
        meta = secret.metadata
        try:
            await cluster.delete(SECRETS, meta.name, namespace=meta.namespace, uid=meta.uid)
        except NotFound:
            continue
        yield REMOVED.format(what=f"Secret {meta.namespace}/{meta.name}")
    for each in await withdraw(cluster, name=name):
        yield REMOVED.format(what=each)
