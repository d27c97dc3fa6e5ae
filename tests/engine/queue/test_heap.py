import hypothesis.strategies as st
from hypothesis import given

from fairway.engine.queue.heap import Heap

steps = st.lists(st.tuples(st.sampled_from(["push", "discard", "pop"]), st.integers(0, 9), st.integers(0, 3)))


@given(steps=steps)
def test_heap_pops_the_lowest_key_and_then_the_first_pushed(steps: list[tuple[str, int, int]]) -> None:
    heap: Heap[int] = Heap()
    model: dict[int, tuple[int, int]] = {}
    for number, (step, item, key) in enumerate(steps):
        if step == "push":
            heap.push(item, (key,))
            model[item] = (key, number)
        elif step == "discard":
            heap.discard(item)
            model.pop(item, None)
        else:
            expected = min(model, key=model.__getitem__) if model else None
            assert heap.pop() == expected
            if expected is not None:
                del model[expected]
        assert len(heap) == len(model)


def test_heap_forgets_removed_items() -> None:
    heap: Heap[int] = Heap()
    heap.push(-1, (0,))
    for item in range(10_000):
        heap.push(item, (1,))
        heap.discard(item)
    assert len(heap._list) < 200
    assert (heap.pop(), heap.pop()) == (-1, None)
