import pytest

from fairway.engine.state import CycleState


def test_what_is_written_can_be_read_as_what_it_is() -> None:
    state = CycleState()
    state.write("most", 3)
    assert state.read("most", int) == 3
    state.write("most", 4)
    assert state.read("most", int) == 4


def test_reading_what_nobody_wrote_is_a_fault() -> None:
    with pytest.raises(KeyError):
        CycleState().read("most", int)


def test_looking_for_what_nobody_wrote_is_not() -> None:
    state = CycleState()
    assert state.find("most", int) is None
    state.write("most", 3)
    assert state.find("most", int) == 3


def test_reading_it_as_something_else_is_a_fault() -> None:
    state = CycleState()
    state.write("most", "three")
    with pytest.raises(TypeError, match="cycle state 'most' holds str, not int"):
        state.read("most", int)
    with pytest.raises(TypeError, match="holds str, not int"):
        state.find("most", int)


def test_a_clone_goes_its_own_way() -> None:
    state = CycleState()
    state.write("shared", (1, 2))
    clone = state.clone()
    assert clone.read("shared", tuple) is state.read("shared", tuple)
    clone.write("shared", (3,))
    clone.write("own", 1)
    assert state.read("shared", tuple) == (1, 2)
    assert state.find("own", int) is None
