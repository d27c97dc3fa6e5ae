import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.pod_oracle import requests_of
from fairway.api.pod import Pod
from fairway.api.pod_requests import (
    amount_of,
    amounts_of,
    effective_requests,
    incoming_scoring_requests,
    readable_requests,
    scoring_requests,
)
from kubewire.api.quantity import QuantityError

GOLDEN = Path(__file__).parents[1] / "golden" / "pod-requests.jsonl"

GIB = 2**30
INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


def pod(spec: dict[str, Any], status: dict[str, Any] | None = None) -> Pod:
    return msgspec.convert({"spec": spec, "status": status or {}}, Pod)


def requests(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    return effective_requests(pod(spec, status))


def asking(name: str, requests: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests} if requests is not None else {}, **more}


AMOUNTS = st.sampled_from(
    [
        "0",
        "1",
        "2",
        "3",
        "100m",
        "250m",
        "1500m",
        "0.5",
        "2.5",
        "333u",
        "1n",
        "1e3",
        "64Mi",
        "1.5Gi",
        "500M",
        1,
        2.5,
    ]
)
RESOURCES = st.sampled_from(["cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu", "ephemeral-storage"])
LISTS = st.dictionaries(RESOURCES, AMOUNTS, max_size=4)
RUNNING = st.fixed_dictionaries({}, optional={"requests": LISTS})
NAMES = ("c0", "c1", "i0", "i1", "i2")


@st.composite
def containers(draw: st.DrawFn, names: tuple[str, ...], *, init: bool) -> list[dict[str, Any]]:
    drawn = []
    for name in names[: draw(st.integers(0, len(names)))]:
        container: dict[str, Any] = {"name": name}
        if draw(st.booleans()):
            container["resources"] = draw(RUNNING)
        if init and draw(st.booleans()):
            container["restartPolicy"] = draw(st.sampled_from(["Always", "OnFailure"]))
        drawn.append(container)
    return drawn


STATUSES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(NAMES)}, optional={"allocatedResources": LISTS, "resources": RUNNING}
    ),
    max_size=4,
)
CLAIMS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "containers": st.lists(st.sampled_from(NAMES), unique=True),
            "resources": LISTS,
            "mapping": st.lists(
                st.fixed_dictionaries({"name": RESOURCES}, optional={"quantity": AMOUNTS}), max_size=2
            ),
            "overhead": st.lists(
                st.fixed_dictionaries(
                    {"name": RESOURCES}, optional={"perPod": AMOUNTS, "perContainer": AMOUNTS}
                ),
                max_size=2,
            ),
        },
    ),
    max_size=2,
)
SPECS = st.fixed_dictionaries(
    {"containers": containers(("c0", "c1"), init=False)},
    optional={
        "initContainers": containers(("i0", "i1", "i2"), init=True),
        "overhead": LISTS,
        "resources": RUNNING,
    },
)
PODS = st.fixed_dictionaries(
    {"spec": SPECS},
    optional={
        "status": st.fixed_dictionaries(
            {},
            optional={
                "conditions": st.lists(
                    st.sampled_from([INFEASIBLE, DEFERRED, {"type": "Ready"}]), max_size=2
                ),
                "containerStatuses": STATUSES,
                "initContainerStatuses": STATUSES,
                "allocatedResources": LISTS,
                "resources": RUNNING,
                "nodeAllocatableResourceClaimStatuses": CLAIMS,
            },
        )
    },
)


@given(document=PODS)
def test_effective_requests_match_the_oracle(document: dict[str, Any]) -> None:
    requests = effective_requests(msgspec.convert(document, Pod))
    assert {name: amount for name, amount in requests.items() if amount} == requests_of(document)


@given(document=PODS)
def test_readable_requests_match_the_oracle(document: dict[str, Any]) -> None:
    decoded = msgspec.convert(document, Pod)
    assert readable_requests(decoded) == (effective_requests(decoded), ())


def test_pod_request_oracle_matches_recorded_answers() -> None:
    rows = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    assert len(rows) == 200
    for row in rows:
        requests = requests_of(row["pod"])
        expected = row["requests"]
        assert requests.get("cpu", 0) == expected["cpuMilli"]
        assert requests.get("memory", 0) == expected["memoryBytes"]
        assert requests.get("nvidia.com/gpu", 0) == expected["gpu"]


def test_sidecar_counts_beside_later_init_containers() -> None:
    spec = {
        "initContainers": [
            asking("before", {"cpu": "4"}),
            asking("sidecar", {"cpu": "1"}, restartPolicy="Always"),
            asking("after", {"cpu": "2"}),
        ],
        "containers": [asking("app", {"cpu": "1500m"})],
    }
    assert requests(spec) == {"cpu": 4000}
    spec["initContainers"][2] = asking("after", {"cpu": "3500m"})
    assert requests(spec) == {"cpu": 4500}


def test_pod_level_requests_replace_only_supported_resources() -> None:
    spec = {
        "containers": [asking("app", {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "2"})],
        "resources": {"requests": {"cpu": "1", "hugepages-2Mi": "4Mi", "nvidia.com/gpu": "8"}},
        "overhead": {"cpu": "100m"},
    }
    assert requests(spec) == {"cpu": 1100, "memory": GIB, "nvidia.com/gpu": 2, "hugepages-2Mi": 4 * 2**20}


RESIZED = {"containers": [asking("app", {"cpu": "4"})]}
AS_IT_WAS = {"name": "app", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "1"}}}


@pytest.mark.parametrize(
    ("conditions", "statuses", "milli"),
    [
        ([], [AS_IT_WAS], 4000),
        ([DEFERRED], [AS_IT_WAS], 4000),
        ([INFEASIBLE], [AS_IT_WAS], 2000),
        ([INFEASIBLE], [{"name": "app", "resources": {"requests": {"cpu": "3"}}}], 3000),
        ([], [{"name": "app", "allocatedResources": {"cpu": "5"}}], 5000),
        ([], [{"name": "other", "allocatedResources": {"cpu": "5"}}], 4000),
    ],
    ids=["accepted", "deferred", "infeasible", "infeasible and running", "shrinking", "of another"],
)
def test_resize_in_progress_counts_the_larger_request(
    conditions: list[dict[str, str]], statuses: list[dict[str, Any]], milli: int
) -> None:
    assert requests(RESIZED, {"conditions": conditions, "containerStatuses": statuses}) == {"cpu": milli}


WHOLE = {"containers": [asking("app")], "resources": {"requests": {"cpu": "1"}}, "overhead": {"cpu": "500m"}}


def test_overhead_is_added_to_the_pod_level_status() -> None:
    status = {"allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "2"}}}
    assert requests(WHOLE, status) == {"cpu": 3500}


def test_granted_pod_level_resources_count_once_the_status_has_the_running_ones() -> None:
    assert requests(WHOLE, {"allocatedResources": {"cpu": "3"}}) == {"cpu": 1500}
    assert requests(WHOLE, {"allocatedResources": {"cpu": "3"}, "resources": {}}) == {"cpu": 3500}


def test_default_request_replaces_each_missing_one_of_spec_and_status() -> None:
    spec = {"containers": [asking("a"), asking("b")]}
    status = {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "2"}}]}
    assert scoring_requests(pod(spec, status)) == {"cpu": 2100, "memory": 400 * 2**20}
    assert scoring_requests(pod(spec, {"conditions": [INFEASIBLE]})) == {"cpu": 200, "memory": 400 * 2**20}


def test_pod_level_requests_do_not_count_when_nodes_are_scored_for_the_pod() -> None:
    whole = pod(WHOLE)
    assert incoming_scoring_requests(whole) == {"cpu": 600, "memory": 200 * 2**20}
    assert scoring_requests(whole) == {"cpu": 1500, "memory": 200 * 2**20}


def test_fractional_requests_are_summed_before_rounding() -> None:
    spec = {"containers": [asking(f"c{number}", {"cpu": "400u", "memory": "500m"}) for number in range(5)]}
    assert requests(spec) == {"cpu": 2, "memory": 3}


def test_request_amounts_are_capped() -> None:
    assert amount_of("memory", "1e100") == amount_of("cpu", "1.99999999999999999999e99999") == 2**63 - 1
    assert amounts_of({"cpu": "12Ei", "pods": 110, "memory": 1.5}) == {
        "cpu": 2**63 - 1,
        "pods": 110,
        "memory": 2,
    }


def test_invalid_request_quantity_is_reported_and_the_rest_is_read() -> None:
    bad = pod({"containers": [asking("app", {"cpu": "lots", "memory": "1Gi"}), asking("b", {"cpu": "2"})]})
    with pytest.raises(
        QuantityError, match=r'^cpu: quantity "lots" does not start with a number; write digits'
    ):
        effective_requests(bad)
    amounts, problems = readable_requests(bad)
    assert amounts == {"cpu": 2000, "memory": GIB}
    assert [problem.partition(";")[0] for problem in problems] == [
        'cpu: quantity "lots" does not start with a number'
    ]
