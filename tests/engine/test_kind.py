"""A kind of work becomes a spec, and a spec a profile, with the plugins of a registry."""

from typing import Any

import pytest

from engine.toys import Points
from fairway.engine.errors import UnknownPluginError
from fairway.engine.kind import WorkKind
from fairway.engine.points import CommitContext, Context
from fairway.engine.profile import Enabled, ProfileSpec, build_profile
from fairway.engine.registry import Registry
from fairway.engine.status import OK, Status


class Open:
    name = "Open"

    def filter(self, _context: Context, _row: int, /) -> Status:
        return OK


class Fresh(Points):
    def __init__(self) -> None:
        super().__init__({}, "Fresh")


class Binder:
    name = "Binder"

    async def bind(self, _context: CommitContext, /) -> Status:
        return OK


def registry() -> Registry:
    made = Registry()
    made.register("Open", Open)
    made.register("Fresh", Fresh)
    made.declare("Binder", {"Bind"})
    return made


KIND = WorkKind(
    name="toys",
    profile="toy",
    registry=registry,
    enabled=(Enabled("Fresh", 3), Enabled("Open"), Enabled("Binder")),
)


def entries(spec: ProfileSpec) -> dict[str, Any]:
    return {point: list(enabled) for point, enabled in spec.points.items() if enabled}


def test_default_spec_has_each_plugin_at_the_points_that_it_implements() -> None:
    spec = KIND.spec(args={"Fresh": {"speed": 2}})
    assert entries(spec) == {"Filter": [("Open", 0)], "Score": [("Fresh", 3)], "Bind": [("Binder", 0)]}
    assert (spec.name, KIND.spec(name="other").name, spec.args) == ("toy", "other", {"Fresh": {"speed": 2}})


def test_declared_plugin_is_left_out_until_a_controller_registers_it() -> None:
    plain = registry()
    assert build_profile(KIND.spec(), plain).binds == ()
    plain.register("Binder", Binder)
    assert [bind.name for bind in build_profile(KIND.spec(), plain).binds] == ["Binder"]


def test_plugin_of_the_decision_cannot_only_be_declared() -> None:
    with pytest.raises(AssertionError, match="Open"):
        Registry().declare("Open", {"Filter"})


def test_misspelt_plugin_is_refused_with_the_name_of_a_declared_one() -> None:
    with pytest.raises(UnknownPluginError, match="did you mean Binder"):
        registry().points("binder")


def test_extended_spec_keeps_the_place_and_weight_of_plugins_that_it_has() -> None:
    more = {"Score": (Enabled("Open", 9), Enabled("Fresh", 9)), "Filter": (Enabled("Fresh"),)}
    extended = KIND.spec().extended(more, first=("Filter",), args={"Fresh": {"speed": 1}})
    assert entries(extended) == {
        "Filter": [("Fresh", 0), ("Open", 0)],
        "Score": [("Fresh", 3), ("Open", 9)],
        "Bind": [("Binder", 0)],
    }
    assert extended.args == {"Fresh": {"speed": 1}}


def test_spec_without_a_plugin_has_no_arguments_of_it() -> None:
    spec = KIND.spec(args={"Fresh": {}}).without("Fresh")
    assert entries(spec) == {"Filter": [("Open", 0)], "Bind": [("Binder", 0)]}
    assert spec.args == {}


def test_deciding_spec_ends_with_the_choice() -> None:
    assert "Bind" not in KIND.spec().deciding().points
