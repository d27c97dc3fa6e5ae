"""Run recorded pods and compare their requests."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from fairway.api.pod import Pod
from fairway.api.pod_requests import CPU, MEMORY, effective_requests
from fairway.whatif.conformance.differences import Difference, differences
from fairway.whatif.conformance.recording import Result, Row, compared_result
from kubewire.api.encoding import without_nulls

_RECORDED: Final = {"cpuMilli": CPU, "memoryBytes": MEMORY, "gpu": "nvidia.com/gpu"}


def run(rows: Iterable[Row], /) -> Iterator[Result]:
    for row in rows:
        pod, requests = row["pod"], row["requests"]
        yield compared_result(_name(pod), partial(_compare, pod, requests))


def _compare(pod: Row, expected: Row) -> Iterator[Difference]:
    requests = effective_requests(msgspec.convert(without_nulls(pod), Pod))
    return differences(expected, {field: requests.get(name, 0) for field, name in _RECORDED.items()})


def _name(pod: Any) -> str:
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
