"""Publish the add-ons of a cluster and their state as labels of the cluster, for selectors of Placements."""

from typing import Final

from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.addons import conditions, health, names
from fairway.controllers.addons.index import AddOnIndex
from fairway.controllers.runtime.writer import Writer
from kubewire.api.meta import find_condition
from kubewire.client import NotFound

LONGEST: Final = 63
"""Characters of a label's name after the slash. An add-on with a longer name has no label."""


class Labeller:
    def __init__(self, known: AddOnIndex, writer: Writer) -> None:
        self._index, self._writer = known, writer

    async def label(self, name: str) -> None:
        cluster = self._index.cluster(name)
        if cluster is None or cluster.metadata.deletionTimestamp is not None:
            return
        wanted = {
            f"{names.FEATURE_PREFIX}{add_on.metadata.name}": health.label(
                find_condition(add_on.status.conditions, conditions.AVAILABLE)
            )
            for add_on in self._index.add_ons_on(name)
            if add_on.metadata.deletionTimestamp is None
        }
        wanted = {key: value for key, value in wanted.items() if len(key.rpartition("/")[2]) <= LONGEST}
        present = {
            key: value
            for key, value in cluster.metadata.labels.items()
            if key.startswith(names.FEATURE_PREFIX)
        }
        if wanted == present:
            return
        changes: dict[str, str | None] = dict.fromkeys(present.keys() - wanted.keys())
        changes |= {key: value for key, value in wanted.items() if present.get(key) != value}
        async with self._writer.batch():
            try:
                await self._writer.patch(
                    MANAGED_CLUSTERS, cluster.metadata, {"metadata": {"labels": changes}}
                )
            except NotFound:
                return  # the watch event requeues it
