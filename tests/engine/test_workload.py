from typing import Any

import pytest

from fairway.engine.workload import LARGEST_AMOUNT, Workload, WorkloadKey


def test_demand_is_copied_read_only_and_saturates() -> None:
    given: dict[str, int] = {"cpu": 1500, "memory": LARGEST_AMOUNT + 1, "gpu": 0}
    workload = Workload(key=WorkloadKey("ns", "a", "1"), spec=None, demand=given)
    given["cpu"] = 0
    assert workload.demand == {"cpu": 1500, "memory": LARGEST_AMOUNT}
    with pytest.raises(TypeError):
        workload.demand["cpu"] = 0  # type: ignore[index]


@pytest.mark.parametrize("amount", [-1, 1.5, True, "1"])
def test_demand_that_is_no_whole_amount_is_refused(amount: Any) -> None:
    with pytest.raises(ValueError, match="cpu: an amount must be a whole number of milli-units, at least 0"):
        Workload(key=WorkloadKey("ns", "a", "1"), spec=None, demand={"cpu": amount})
