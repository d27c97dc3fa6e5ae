"""What a leader remembers of each request besides the hub's objects. The next one begins without."""

from dataclasses import dataclass

from fairway.engine.workload import WorkloadKey
from fairway.workloads.hosting import Decision


@dataclass(slots=True)
class RequestRecord:
    decision: Decision | None = None
    """The last decision about it, which the status has once a place is bound; None before the first one."""
    is_counted: bool = False
    """Whether a published load is known to include it. Its status has that as the condition Counted, once it is
    reconciled: a score may come while another write of the status is under way."""


class Records:
    """The records of all requests, each created when it is first used."""

    def __init__(self) -> None:
        self._records: dict[WorkloadKey, RequestRecord] = {}

    def __getitem__(self, key: WorkloadKey) -> RequestRecord:
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = RequestRecord()
        return record

    def forget(self, key: WorkloadKey) -> None:
        """Drop the record of a deleted request."""
        self._records.pop(key, None)
