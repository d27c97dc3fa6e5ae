"""Demand of requests: sizes, explicit amounts and availability."""

import pytest

from fairway.workloads.hosting.requests.demand import BAD_AMOUNT, UNKNOWN_SIZE, Demand, DemandError, demand_of
from fairway.workloads.hosting.resources import (
    CPU,
    HOSTED,
    MEMORY,
    PODS,
    SLOTS,
    as_quantities,
    from_quantities,
)
from workloads.hosting.hosts import policy, request

GIB = 1 << 30


def amounts(demand: Demand) -> dict[str, str]:
    return as_quantities(demand.amounts)


def test_request_without_size_is_a_small_highly_available_one() -> None:
    demand = demand_of(request("a"))
    assert (demand.size, demand.single, demand.slots_score) == ("small", False, "hcpSlotsSmall")
    assert amounts(demand) == {HOSTED: "1", SLOTS: "1", CPU: "5", MEMORY: "17Gi", PODS: "78"}


def test_large_one_is_worth_five_small_ones() -> None:
    assert demand_of(request("a", size="large")).amounts[SLOTS] == 5059


def test_availability_of_the_hosted_cluster_counts_unless_the_request_has_its_own() -> None:
    template = {"spec": {"controllerAvailabilityPolicy": "SingleReplica"}}
    demand = demand_of(request("a", hostedCluster=template))
    assert (demand.single, demand.slots_score) == (True, "hcpSlotsSingle")
    assert amounts(demand) == {HOSTED: "1", SLOTS: "540m", CPU: "2700m", MEMORY: "8704Mi", PODS: "26"}
    assert not demand_of(request("a", hostedCluster=template, availability="HighlyAvailable")).single


def test_explicit_demand_is_taken_as_it_is() -> None:
    demand = demand_of(request("a", demand={"cpu": "1500m", "memory": 4 * GIB}))
    assert (demand.size, demand.slots_score) == ("custom", None)
    assert amounts(demand) == {HOSTED: "1", SLOTS: "300m", CPU: "1500m", MEMORY: "4Gi"}


def test_size_of_the_policy_replaces_a_built_in_one() -> None:
    sizes = policy(sizes=[{"name": "small", "cpu": 2, "memory": "8Gi"}]).spec.sizes
    assert demand_of(request("a"), sizes=sizes).amounts[CPU] == 2000


def test_unknown_size_lists_the_sizes_that_exist() -> None:
    sizes = policy(sizes=[{"name": "huge", "cpu": 40, "memory": "150Gi"}]).spec.sizes
    with pytest.raises(DemandError) as refused:
        demand_of(request("a", size="hue"), sizes=sizes)
    assert str(refused.value) == UNKNOWN_SIZE.format(size="hue", known="huge, large, medium, small")


def test_unreadable_amount_names_its_field() -> None:
    with pytest.raises(DemandError, match=BAD_AMOUNT.format(field="spec.demand.cpu", reason="quantity")):
        demand_of(request("a", demand={"cpu": "five", "memory": "4Gi"}))


@pytest.mark.parametrize("text", ["5", "2700m", "17Gi", "8704Mi", "1", "540m"])
def test_quantities_of_a_status_are_read_back_exactly(text: str) -> None:
    assert as_quantities(from_quantities({MEMORY: text})) == {MEMORY: text}
