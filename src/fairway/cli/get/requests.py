"""Requests of hosted clusters, and where they are hosted."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, cast

from fairway.api.hosted_request import PENDING, HostedClusterRequest
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS
from fairway.cli.get.view import Lot, View, Wanted
from fairway.cli.output import Row
from fairway.workloads.hosting.requests.request_status import summarize
from kubewire.api.age import format_age
from kubewire.api.resource import Key, key_of

COLUMNS: Final = {
    "name": "Name",
    "phase": "Phase",
    "host": "Host",
    "size": "Size",
    "score": "Score",
    "reason": "Reason",
    "age": "Age",
    "message": "Message",
}


class Requests(View):
    noun, nouns = "HostedClusterRequest", "HostedClusterRequests"
    less = ("score", "age", "size", "reason")
    shown = (HOSTED_CLUSTER_REQUESTS,)

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self._requests: dict[Key, HostedClusterRequest] = {}

    @property
    def columns(self) -> Mapping[str, str]:
        return COLUMNS if self.wanted.where else {"namespace": "Namespace", **COLUMNS}

    def put(self, thing: Any) -> Iterable[Lot]:
        self._requests[key_of(thing)] = thing
        return (key_of(thing),)

    def drop(self, thing: Any) -> Iterable[Lot]:
        self._requests.pop(key_of(thing), None)
        return (key_of(thing),)

    def lots(self) -> Iterable[Lot]:
        return sorted(self._requests)

    def rows(self, lot: Lot, *, now: datetime) -> Mapping[str, Row]:
        key = cast("Key", lot)
        request = self._requests.get(key)
        if request is None or not self.matches(request):
            return {}
        created = request.metadata.creationTimestamp
        # What an earlier controller wrote has no summary yet.
        status = summarize(request, request.status)
        return {
            "": {
                "namespace": key[0],
                "name": key[1],
                "phase": status.phase or PENDING,
                "host": status.hostingCluster.name if status.hostingCluster else "",
                "size": status.size,
                "score": status.total,
                "reason": status.reason,
                "age": format_age(int((now - created).total_seconds())) if created else "",
                "message": status.message,
            }
        }
