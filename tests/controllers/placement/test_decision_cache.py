"""Precedence between the watch and the responses to own writes."""

from fairway.api.decision import PlacementDecision
from fairway.api.meta import ObjectMeta
from fairway.api.placement import PLACEMENT_LABEL
from fairway.controllers.placement.decision_cache import DecisionCache, placement_of

KEY = ("ns", "p-decision-1")


def decision(version: int, *, uid: str = "u", placement: str = "p") -> PlacementDecision:
    namespace, name = KEY
    meta = ObjectMeta(
        namespace=namespace,
        name=name,
        uid=uid,
        resourceVersion=str(version),
        labels={PLACEMENT_LABEL: placement},
    )
    return PlacementDecision(metadata=meta)


def test_older_version_is_ignored() -> None:
    known = DecisionCache()
    known.wrote(decision(7))

    assert not known.see(decision(5), again=False)
    assert not known.see(decision(7), again=False)
    assert known.get(*KEY) == decision(7)
    assert known.see(decision(8), again=False)
    assert known.get(*KEY) == decision(8)


def test_response_older_than_the_watch_is_ignored() -> None:
    known = DecisionCache()
    known.see(decision(5), again=False)
    known.see_removal(decision(6))
    known.reach("6")

    known.wrote(decision(5))

    assert known.get(*KEY) is None


def test_older_version_counts_after_a_history_reset() -> None:
    known = DecisionCache()
    known.wrote(decision(7))

    assert known.restart() == [KEY]
    assert known.see(decision(5), again=True)
    assert known.get(*KEY) == decision(5)


def test_own_deletion_lasts_until_the_name_is_recreated() -> None:
    known = DecisionCache()
    known.wrote(decision(7))
    known.removed(decision(7))

    assert not known.see(decision(8), again=False)
    assert known.get(*KEY) is None
    assert known.see(decision(9, uid="other"), again=False)


def test_watch_event_of_an_own_deletion_is_no_change() -> None:
    known = DecisionCache()
    known.wrote(decision(7))
    known.removed(decision(7))

    assert known.see_removal(decision(8)) is None
    assert known.restart() == []


def test_unobserved_own_deletion_is_checked_after_a_history_reset() -> None:
    known = DecisionCache()
    known.see(decision(7), again=False)
    known.removed(decision(7))

    assert known.restart() == [KEY]
    assert known.see(decision(7), again=True)


def test_deletion_of_an_earlier_object_of_the_name_is_ignored() -> None:
    known = DecisionCache()
    known.wrote(decision(9, uid="other"))

    assert known.see_removal(decision(8)) is None
    assert known.get(*KEY) is not None


def test_decision_belongs_to_the_placement_of_its_latest_label() -> None:
    known = DecisionCache()
    known.see(decision(5), again=False)
    known.see(decision(6, placement="q"), again=False)

    assert known.own(("ns", "p")) == {}
    assert known.own(("ns", "q")) == {KEY[1]: decision(6, placement="q")}
    assert known.named("ns") == known.own(("ns", "q"))
    assert placement_of(decision(6, placement="q")) == ("ns", "q")
