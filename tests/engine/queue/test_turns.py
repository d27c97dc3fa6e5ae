"""Owners of ready workloads take turns."""

import hypothesis.strategies as st
from hypothesis import given

from fairway.engine.queue import SchedulingQueue
from fairway.engine.queue.heap import Heap
from fairway.engine.queue.turns import MOST_AHEAD, TurnHeap
from fairway.engine.workload import Workload, WorkloadKey

steps = st.lists(st.tuples(st.sampled_from(["push", "discard", "pop"]), st.integers(0, 9), st.integers(0, 3)))


def popped(heap: TurnHeap[str]) -> list[str]:
    items = []
    while (item := heap.pop()) is not None:
        items.append(item)
    return items


@given(steps=steps)
def test_items_of_one_owner_are_ordered_as_without_turns(steps: list[tuple[str, int, int]]) -> None:
    plain: Heap[int] = Heap()
    turns: TurnHeap[int] = TurnHeap()
    for step, item, key in steps:
        if step == "push":
            plain.push(item, (key,))
            turns.push(item, (key,), owner="a")
        elif step == "discard":
            plain.discard(item)
            turns.discard(item)
        else:
            assert turns.pop() == plain.pop()
        assert len(turns) == len(plain)
        assert set(turns) == set(plain)


def test_owners_take_turns_within_a_class_and_classes_are_in_order() -> None:
    heap: TurnHeap[str] = TurnHeap()
    for number in range(4):
        heap.push(f"a{number}", (0, number), owner="a")
    for number in range(2):
        heap.push(f"b{number}", (0, 10 + number), owner="b")
    heap.push("urgent", (-1, 99), owner="a")
    assert popped(heap) == ["urgent", "b0", "a0", "b1", "a1", "a2", "a3"]


def test_item_that_changes_its_owner_is_popped_once() -> None:
    heap: TurnHeap[str] = TurnHeap()
    heap.push("item", (0,), owner="a")
    heap.push("item", (0,), owner="b")
    assert popped(heap) == ["item"]


@given(owners=st.integers(1, 5), classes=st.integers(1, 50))
def test_no_class_keeps_an_owner_waiting_forever(owners: int, classes: int) -> None:
    heap: TurnHeap[str] = TurnHeap()
    heap.push("patient", (0,), owner="patient")
    pops = 0
    for pops in range(owners * (MOST_AHEAD + 1) + 1):
        for owner in range(owners):
            heap.push(f"{owner}-{pops}", (-1 - pops % classes,), owner=owner)
        if heap.pop() == "patient":
            break
    else:
        raise AssertionError(f"not popped after {pops} others")


def test_owner_keeps_its_turn_when_its_only_item_changes() -> None:
    heap: TurnHeap[str] = TurnHeap()
    heap.push("a", (0, 2), owner="a")
    heap.push("b", (0, 1), owner="b")
    heap.push("a", (0, 3), owner="a")
    assert popped(heap) == ["a", "b"]
    heap.push("a", (-1,), owner="a")
    heap.push("b", (0,), owner="b")
    heap.push("a", (1,), owner="a")
    assert popped(heap) == ["b", "a"]


def test_update_of_a_ready_workload_keeps_the_turn_of_its_owner() -> None:
    queue = SchedulingQueue(owner_of=lambda workload: workload.key.namespace)
    for owner in ("a", "b"):
        queue.put(Workload(key=WorkloadKey(owner, "w", "1"), spec="old"), now=0)
    queue.put(Workload(key=WorkloadKey("a", "w", "1"), spec="new"), now=1)
    first = queue.pop(now=1)
    assert first is not None
    assert (first.namespace, first.spec) == ("a", "new")
