"""The requests of every recorded pod equal those of the reference.

``golden/pod-requests.jsonl`` has 200 pods and their effective requests by the helper of Kubernetes 1.37, with
containers, init containers, sidecars, overhead and pod-level resources.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairway.whatif.conformance import pod_requests
from fairway.whatif.conformance.recording import POD_REQUESTS, open_recording

RECORDING = open_recording(str(Path(__file__).parents[1] / "golden" / "pod-requests.jsonl"))


def test_pod_requests_match_the_reference() -> None:
    results = list(RECORDING.run())
    assert RECORDING.family == POD_REQUESTS
    assert len(results) == len({result.name for result in results}) == 200
    assert [result for result in results if not result.passed] == []


@pytest.mark.parametrize("field", ["cpuMilli", "memoryBytes", "gpu"])
def test_wrong_pod_requests_are_a_difference(field: str) -> None:
    row: dict[str, Any] = msgspec.json.decode(RECORDING.rows[0])
    row["requests"][field] += 1
    (result,) = pod_requests.run([row])
    assert [difference.path for difference in result.differences] == [field]


def test_undecodable_pod_is_a_difference() -> None:
    broken = {"pod": {"metadata": {"name": "p"}, "spec": {"containers": "none"}}, "requests": {"cpuMilli": 0}}
    (result,) = pod_requests.run([broken])
    assert result.name == "p"
    assert "Expected `array`" in result.differences[0].got
