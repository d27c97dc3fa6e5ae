"""Which of two tellers is believed about a decision: the watch, or the hub's answer to our own write."""

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


def test_what_is_older_than_what_is_known_is_no_news() -> None:
    known = DecisionCache()
    known.wrote(decision(7))

    assert not known.see(decision(5), again=False)
    assert not known.see(decision(7), again=False)
    assert known.get(*KEY) == decision(7)
    assert known.see(decision(8), again=False)
    assert known.get(*KEY) == decision(8)


def test_an_answer_that_the_watch_is_past_is_no_news() -> None:
    known = DecisionCache()
    known.see(decision(5), again=False)
    known.see_removal(decision(6))
    known.reach("6")

    known.wrote(decision(5))

    assert known.get(*KEY) is None


def test_after_the_history_went_back_older_is_newer() -> None:
    known = DecisionCache()
    known.wrote(decision(7))

    assert known.restart() == [KEY]
    assert known.see(decision(5), again=True)
    assert known.get(*KEY) == decision(5)


def test_what_we_deleted_stays_deleted_until_there_is_another_of_that_name() -> None:
    known = DecisionCache()
    known.wrote(decision(7))
    known.removed(decision(7))

    assert not known.see(decision(8), again=False)
    assert known.get(*KEY) is None
    assert known.see(decision(9, uid="other"), again=False)


def test_the_watch_telling_of_our_deletion_is_no_news_and_ends_it() -> None:
    known = DecisionCache()
    known.wrote(decision(7))
    known.removed(decision(7))

    assert known.see_removal(decision(8)) is None
    assert known.restart() == []


def test_what_only_we_know_to_be_deleted_is_asked_about_after_the_history_went_back() -> None:
    known = DecisionCache()
    known.see(decision(7), again=False)
    known.removed(decision(7))

    assert known.restart() == [KEY]
    assert known.see(decision(7), again=True)


def test_the_removal_of_its_namesake_before_it_is_no_news() -> None:
    known = DecisionCache()
    known.wrote(decision(9, uid="other"))

    assert known.see_removal(decision(8)) is None
    assert known.get(*KEY) is not None


def test_a_decision_belongs_to_the_placement_it_is_labelled_with_last() -> None:
    known = DecisionCache()
    known.see(decision(5), again=False)
    known.see(decision(6, placement="q"), again=False)

    assert known.own(("ns", "p")) == {}
    assert known.own(("ns", "q")) == {KEY[1]: decision(6, placement="q")}
    assert known.named("ns") == known.own(("ns", "q"))
    assert placement_of(decision(6, placement="q")) == ("ns", "q")
