"""Works as the hub answered them, until its watch has told as much.

The answer to a write may hold what an agent has reported since, and the watch tells that later: after older news of the
same work. Who went by those would take back what was said already, and a Placement that chooses by it would move.
"""

from fairway.api.work import ManifestWork
from fairway.kube import Informer
from fairway.kube.replica import number_of
from fairway.kube.resource import key_of


class Answers:
    def __init__(self, works: Informer[ManifestWork]) -> None:
        self._works = works
        self._kept: dict[tuple[str, str], tuple[int, ManifestWork]] = {}

    def keep(self, work: ManifestWork) -> None:
        """Forgets what the watch has told meanwhile, also of works that are gone."""
        epoch, told = self._works.epoch, number_of(self._works.resource_version) or 0
        self._kept = {
            key: (since, each)
            for key, (since, each) in self._kept.items()
            if since == epoch and (number_of(each.metadata.resourceVersion) or 0) > told
        }
        self._kept[key_of(work)] = (epoch, work)

    def newest(self, seen: ManifestWork) -> ManifestWork:
        """What was seen, or what was answered if that is newer."""
        epoch, answer = self._kept.get(key_of(seen), (-1, seen))
        return answer if epoch == self._works.epoch and _is_newer(answer, seen) else seen


def _is_newer(answer: ManifestWork, seen: ManifestWork) -> bool:
    written, told = (number_of(each.metadata.resourceVersion) for each in (answer, seen))
    if answer.metadata.uid != seen.metadata.uid or written is None or told is None:
        return False
    return written > told
