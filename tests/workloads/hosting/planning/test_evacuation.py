"""Whether the hosted clusters of a failing host fit on the others, against packing them one by one."""

from collections import Counter

import hypothesis.strategies as st
from hypothesis import given

from fairway.workloads.hosting import Capacity, Evacuation, HostingState
from fairway.workloads.hosting.fleet.residents import DemandKey, demand_key
from fairway.workloads.hosting.requests.demand import SIZES, size_demand
from fairway.workloads.hosting.resources import SLOTS
from fairway.workloads.hosting.rules.policy import policy_of
from workloads.hosting.hosts import host, load, placed, policy, request, state_of

POLICY = policy(spareHosts=1, maxPerHost=6)
SMALL, MEDIUM, LARGE = (size_demand(size) for size in SIZES)
fleets = st.lists(
    st.tuples(
        st.sampled_from(["20", "40", "90"]),
        st.integers(0, 2),
        st.lists(st.sampled_from(sorted(SIZES)), max_size=5),
    ),
    min_size=1,
    max_size=5,
)


def state_from(fleet: list[tuple[str, int, list[str]]]) -> HostingState:
    """Hosts with so many cores, hosted clusters of others, and requests."""
    objects: list[object] = [POLICY]
    for number, (cores, others, sizes) in enumerate(fleet):
        name = f"h{number}"
        objects += [host(name, allocatable={"cpu": cores, "memory": "9Ti"}), load(name, count=others)]
        objects += [placed(f"r{number}-{at}", on=name, size=size) for at, size in enumerate(sizes)]
    return state_of(*objects)


def unplaced(state: HostingState, failing: str, carried: dict[DemandKey, int]) -> int:
    """Place each hosted cluster of a host on the first other one with room, the largest first."""
    demands = {demand_key(demand): demand for demand in (SMALL, MEDIUM, LARGE)}
    free = {name: state.free(facts.key) for name, facts in state.facts.items() if name != failing}
    left = 0
    for key in sorted(carried, key=lambda key: -dict(key[2])[SLOTS]):
        for _ in range(carried[key]):
            for name, room in free.items():
                capacity = state.facts[name].capacity
                assert isinstance(capacity, Capacity)
                asked = capacity.amounts_for(demands[key])
                if all(room.get(resource, 0) >= amount for resource, amount in asked.items()):
                    free[name] = {
                        resource: amount - asked.get(resource, 0) for resource, amount in room.items()
                    }
                    break
            else:
                left += 1
    return left


@given(fleet=fleets)
def test_hosted_clusters_are_packed_as_one_by_one(fleet: list[tuple[str, int, list[str]]]) -> None:
    state = state_from(fleet)
    evacuation = Evacuation.of(state.snapshot(), policy_of(POLICY))
    for number, (_, others, sizes) in enumerate(fleet):
        carried = Counter(demand_key(size_demand(size)) for size in [*sizes, *["small"] * others])
        assert evacuation.unplaced(f"h{number}") == unplaced(state, f"h{number}", dict(carried))
    names = [f"h{number}" for number in range(len(fleet))]
    left = {name: evacuation.unplaced(name) for name in names}
    assert evacuation.stranded() == next(((name, left[name]) for name in names if left[name]), None)


@given(fleet=fleets, size=st.sampled_from(sorted(SIZES)))
def test_hosted_cluster_that_is_added_counts_as_one_that_is_there(
    fleet: list[tuple[str, int, list[str]]], size: str
) -> None:
    state = state_from(fleet)
    added = Evacuation.of(state.snapshot(), policy_of(POLICY)).with_added("h0", size_demand(size))
    fleet[0][2].append(size)
    after = Evacuation.of(state_from(fleet).snapshot(), policy_of(POLICY))
    names = [f"h{number}" for number in range(len(fleet))]
    assert [added.unplaced(name) for name in names] == [after.unplaced(name) for name in names]
    trial = state.fork()
    facts = trial.facts["h0"]
    wanted = trial.workload_of(request("new", size=size))
    if all(amount <= trial.free(facts.key).get(resource, 0) for resource, amount in wanted.demand.items()):
        trial.reserve(wanted, facts.key)
        reserved = Evacuation.of(trial.snapshot(), policy_of(POLICY))
        assert [reserved.unplaced(name) for name in names] == [added.unplaced(name) for name in names]
        trial.vacate(wanted.key)
        assert trial.on(facts.key).carried == state.on(facts.key).carried
