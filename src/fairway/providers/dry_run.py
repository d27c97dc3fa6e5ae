"""A sink that only keeps what would be published."""

from fairway.providers.publication import Publication
from fairway.providers.sink import StoredPublication


class DryRunSink:
    """Of one provider. ``written`` is the last publication of each cluster."""

    def __init__(self) -> None:
        self.written: dict[str, Publication] = {}

    async def find(self, _: str, /) -> StoredPublication | None:
        return None

    async def write(
        self, cluster: str, publication: Publication, /, *, held: StoredPublication | None
    ) -> StoredPublication:
        del held
        self.written[cluster] = publication
        return StoredPublication(publication=publication)

    async def remove(self, cluster: str, /) -> bool:
        return self.written.pop(cluster, None) is not None

    async def clusters(self) -> tuple[str, ...]:
        return tuple(sorted(self.written))
