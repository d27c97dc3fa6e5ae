"""Groups of pods that start together: PodGroups and their pods, for the Coscheduling plugins of the profiles."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from fairway.api.pod import Pod
from fairway.api.pod_group import PodGroup
from fairway.engine.commit.instructions import ForCaller
from fairway.engine.dependencies import Event
from fairway.engine.profile import Profile, plugins_of
from fairway.engine.scheduler import Scheduler
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.instant import Micros
from fairway.workloads.pods.plugins.coscheduling import GROUP_LABEL, Coscheduling

CHANGED: Final = "pod group changed"


class Gangs:
    """Methods return the event by which waiting pods wake; None if nothing changed."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._plugins = [
            plugin
            for profile in profiles
            for plugin in plugins_of(profile)
            if isinstance(plugin, Coscheduling)
        ]

    def upsert_group(self, group: PodGroup) -> Event | None:
        meta, spec = group.metadata, group.spec
        seconds = spec.scheduleTimeoutSeconds
        return _event(
            plugin.upsert_group(
                meta.namespace,
                meta.name,
                min_member=spec.minMember,
                timeout=None if seconds is None else timedelta(seconds=seconds),
            )
            for plugin in self._plugins
        )

    def delete_group(self, group: PodGroup) -> Event | None:
        meta = group.metadata
        return _event(plugin.delete_group(meta.namespace, meta.name) for plugin in self._plugins)

    def upsert_pod(self, pod: Pod) -> Event | None:
        if not self._plugins or GROUP_LABEL not in pod.metadata.labels:
            return None
        return _event(plugin.upsert_pod(pod) for plugin in self._plugins)

    def delete_pod(self, pod: Pod) -> Event | None:
        if not self._plugins or GROUP_LABEL not in pod.metadata.labels:
            return None
        return _event(plugin.delete_pod(pod) for plugin in self._plugins)

    def reject_pod(self, pod: Pod) -> None:
        """Report that no node takes a pod, so that groups which block each other give up."""
        for plugin in self._plugins:
            plugin.reject_pod(pod)

    def settle(self, scheduler: Scheduler, *, now: Micros) -> list[ForCaller]:
        """Let the groups that are complete start, and those that gave up wait again."""
        return [instruction for plugin in self._plugins for instruction in plugin.settle(scheduler, now=now)]


def _event(changes: Iterable[Mapping[Key, Direction]]) -> Event | None:
    columns: dict[Key, Direction] = {}
    for change in changes:
        columns.update(change)
    return Event(label=CHANGED, columns=columns) if columns else None
