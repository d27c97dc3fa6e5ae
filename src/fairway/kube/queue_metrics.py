"""Metrics of a work queue."""

from fairway.kube.workqueue import Observer
from fairway.observe.meters import QueueMeter


class QueueMetrics(Observer):
    """Updates the meter for a queue."""

    def __init__(self, meter: QueueMeter) -> None:
        self._meter = meter

    def added(self, *, depth: int) -> None:
        self._meter.added(depth=depth)

    def started(self, *, waited: float, depth: int) -> None:
        self._meter.started(waited=waited, depth=depth)

    def finished(self, *, took: float) -> None:
        self._meter.finished(took=took)

    def retried(self) -> None:
        self._meter.retried()
