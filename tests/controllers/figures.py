"""What controllers have counted: how often they wrote, and how often they were woken."""

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from fairway.controllers.manager import Manager
from fairway.controllers.placement.queue import PlacementQueue
from fairway.controllers.settings import PLACEMENT

WRITES = "fairway_writes"


def writes(manager: Manager) -> Counter[str]:
    """Requests that change something, events aside, such as ``create placementdecisions``."""
    return Counter(
        {
            f"{sample.labels['verb']} {sample.labels['resource']}": int(sample.value)
            for family in text_string_to_metric_families(manager.meters.expose().decode())
            if family.name == WRITES
            for sample in family.samples
            if sample.name == f"{WRITES}_total"
        }
    )


def wakes(manager: Manager) -> int:
    """Number of reconciles of all placements."""
    queue = manager.controllers[PLACEMENT].queue
    assert isinstance(queue, PlacementQueue)
    return queue.adds
