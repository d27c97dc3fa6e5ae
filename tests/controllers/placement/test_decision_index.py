"""Decisions by name, and by their placement."""

from fairway.controllers.placement.decision_index import DecisionIndex, placement_of
from fairway.testing import builders


def test_decision_belongs_to_the_placement_of_its_latest_label() -> None:
    index = DecisionIndex()
    index.put(builders.decision("page", ["a"], placement="p", namespace="ns"))
    relabelled = builders.decision("page", ["a"], placement="q", namespace="ns")
    index.put(relabelled)

    assert placement_of(relabelled) == ("ns", "q")
    assert index.decisions_of(("ns", "p")) == {}
    assert index.decisions_of(("ns", "q")) == {"page": relabelled}
    assert index.named("ns") == {"page": relabelled}


def test_dropped_decision_is_in_no_index() -> None:
    index = DecisionIndex()
    page = builders.decision("page", ["a"], placement="p", namespace="ns")
    index.put(page)

    assert index.drop("ns", "page") == page
    assert index.drop("ns", "page") is None
    assert (index.get("ns", "page"), index.named("ns"), index.decisions_of(("ns", "p"))) == (None, {}, {})
