import pytest

from fairway.engine.state import CycleState


def test_cycle_state_returns_written_value() -> None:
    state = CycleState()
    state.write("most", 3)
    assert state.read("most", int) == 3
    state.write("most", 4)
    assert state.read("most", int) == 4


def test_reading_missing_cycle_state_raises() -> None:
    with pytest.raises(KeyError):
        CycleState().read("most", int)


def test_looking_up_missing_cycle_state_returns_none() -> None:
    state = CycleState()
    assert state.find("most", int) is None
    state.write("most", 3)
    assert state.find("most", int) == 3


def test_reading_cycle_state_as_wrong_type_raises() -> None:
    state = CycleState()
    state.write("most", "three")
    with pytest.raises(TypeError, match="cycle state 'most' holds str, not int"):
        state.read("most", int)
    with pytest.raises(TypeError, match="holds str, not int"):
        state.find("most", int)


def test_cloned_cycle_state_is_independent() -> None:
    state = CycleState()
    state.write("shared", (1, 2))
    clone = state.clone()
    assert clone.read("shared", tuple) is state.read("shared", tuple)
    clone.write("shared", (3,))
    clone.write("own", 1)
    assert state.read("shared", tuple) == (1, 2)
    assert state.find("own", int) is None
