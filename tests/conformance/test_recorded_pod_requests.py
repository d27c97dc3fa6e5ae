"""Every recorded pod asks for what the reference says it asks for.

``golden/pod-requests.jsonl`` holds 200 pods and what the effective-request helper of the Kubernetes 1.37 tree made of
them: containers, init containers, sidecars, overhead, resources of the pod as a whole.
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
    assert [each.path for each in result.differences] == [field]


def test_undecodable_pod_is_a_difference() -> None:
    broken = {"pod": {"metadata": {"name": "p"}, "spec": {"containers": "none"}}, "requests": {"cpuMilli": 0}}
    (result,) = pod_requests.run([broken])
    assert result.name == "p"
    assert "Expected `array`" in result.differences[0].got
