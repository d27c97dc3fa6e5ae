"""Sink for dry runs: stores publications in memory."""

from fairway.providers.publication import Publication
from fairway.providers.sink import StoredPublication


class DryRunSink:
    """``written`` maps each cluster to its last publication."""

    def __init__(self) -> None:
        self.written: dict[str, Publication] = {}

    async def find(self, _: str, /) -> StoredPublication | None:
        return None

    async def write(
        self, cluster: str, publication: Publication, /, *, stored: StoredPublication | None
    ) -> StoredPublication:
        del stored
        self.written[cluster] = publication
        return StoredPublication(publication=publication)

    async def remove(self, cluster: str, /) -> bool:
        return self.written.pop(cluster, None) is not None
