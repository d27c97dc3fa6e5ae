"""Publish the add-ons of a cluster and their state as labels of the cluster, for selectors of Placements."""

from typing import Final

from fairway.api.meta import find_condition
from fairway.controllers.addons import conditions, health, names
from fairway.controllers.addons.index import AddOnIndex
from fairway.controllers.fenced_writer import FencedWriter
from fairway.controllers.leadership import Leadership
from fairway.kube import MANAGED_CLUSTERS, NotFound

LONGEST: Final = 63
"""Characters of a label's name after the slash. An add-on with a longer name has no label."""


class Labeller:
    def __init__(self, known: AddOnIndex, writes: FencedWriter) -> None:
        self._index, self._writer = known, writes

    async def label(self, name: str, leadership: Leadership) -> None:
        cluster = self._index.cluster(name)
        if cluster is None or cluster.metadata.deletionTimestamp is not None:
            return
        wanted = {
            f"{names.FEATURE_PREFIX}{each.metadata.name}": health.label(
                find_condition(each.status.conditions, conditions.AVAILABLE)
            )
            for each in self._index.add_ons_on(name)
            if each.metadata.deletionTimestamp is None
        }
        wanted = {key: value for key, value in wanted.items() if len(key.rpartition("/")[2]) <= LONGEST}
        there = {
            key: value
            for key, value in cluster.metadata.labels.items()
            if key.startswith(names.FEATURE_PREFIX)
        }
        if wanted == there:
            return
        changes: dict[str, str | None] = dict.fromkeys(there.keys() - wanted.keys())
        changes |= {key: value for key, value in wanted.items() if there.get(key) != value}
        async with leadership.batch():
            try:
                await self._writer.patch(
                    MANAGED_CLUSTERS,
                    cluster.metadata,
                    {"metadata": {"labels": changes}},
                    leadership=leadership,
                )
            except NotFound:
                return  # the watch event requeues it
