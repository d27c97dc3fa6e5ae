from dataclasses import dataclass

import pytest

from engine.toys import Admit, Points, Prepared, Refuse, Work, fleet_of
from fairway.engine import cycle
from fairway.engine.choice import BestHosts
from fairway.engine.errors import ProfileError, UnknownPluginError
from fairway.engine.points import CommitContext, Context, Scores, SortKey, Weighted
from fairway.engine.profile import (
    LARGEST_WEIGHT_SUM,
    Enabled,
    OnFault,
    ProfileSpec,
    assemble,
    build_profile,
    plugins_of,
)
from fairway.engine.registry import Registry
from fairway.engine.status import OK, Status
from fairway.engine.workload import Workload
from fairway.hosts.bitmap import Rows


class Everywhere:
    """A plugin with methods at most points, that counts its instances."""

    name = "Everywhere"
    made = 0

    def __init__(self, *, points: int = 0) -> None:
        type(self).made += 1
        self.points = points

    def sort_key(self, workload: Workload[object], queued: int, /) -> SortKey:
        return (queued,)

    def filter(self, context: Context, row: int, /) -> Status:
        return OK

    def pre_score(self, context: Context, rows: Rows, /) -> Status:
        return OK

    def score(self, context: Context, row: int, /) -> int:
        return self.points

    def choose(self, context: Context, rows: Rows, totals: Scores, /) -> Rows:
        return rows

    def reserve(self, context: CommitContext, /) -> Status:
        return OK

    def unreserve(self, context: CommitContext, /) -> None:
        return None


@dataclass
class Named(Points):
    def __init__(self, name: str) -> None:
        super().__init__({}, name)


def registry() -> Registry:
    made = Registry()
    made.register("Everywhere", Everywhere)
    made.register("One", lambda: Named("One"), kind=Named)
    made.register("Two", lambda: Named("Two"), kind=Named)
    made.register("Sort", lambda: Sort("Sort"), kind=Everywhere)
    made.register("Nothing", Nothing)
    return made


class Sort(Everywhere):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class Nothing:
    name = "Nothing"


def spec(**points: tuple[Enabled, ...]) -> ProfileSpec:
    return ProfileSpec(name="toy", points=points)


def test_profile_lists_plugins_once_in_the_order_of_their_calls() -> None:
    admit, first, second = Admit(None), Refuse(name="First"), Refuse(name="Second")
    points, prepared, everywhere = Points({}), Prepared({}), Everywhere()
    profile = assemble(
        name="toy",
        pre_filters=(admit,),
        filters=(first, second, everywhere),
        scores=(Weighted(points), Weighted(prepared, 2)),
        reserves=(everywhere,),
    )
    *plugins, last = plugins_of(profile)
    assert plugins == [admit, first, second, everywhere, points, prepared]
    assert isinstance(last, BestHosts)


def test_profiles_compare_by_identity() -> None:
    first, other = assemble(name="same"), assemble(name="same")
    assert first != other
    assert len({first, other}) == 2


def test_pre_score_runs_only_where_it_is_enabled() -> None:
    alone, scoring = Prepared({}, name="Alone"), Prepared({"a": 1}, name="Scoring")
    profile = assemble(name="toy", pre_scores=(alone,), scores=(Weighted(scoring),))
    outcome = cycle.run(fleet_of("a", "b").snapshot(), Work(), profile, now=0)
    assert (alone.seen, scoring.seen) == ([["a", "b"]], [])
    assert outcome.totals_by_name() == {"a": 1, "b": 0}


def test_one_instance_serves_all_points_of_a_plugin_with_its_args() -> None:
    Everywhere.made = 0
    enabled = (Enabled("Everywhere"),)
    profile = build_profile(
        ProfileSpec(
            name="toy",
            points={
                "QueueSort": enabled,
                "Filter": enabled,
                "Score": enabled,
                "Choose": enabled,
                "Reserve": enabled,
            },
            args={"Everywhere": {"points": 7}},
            on_fault=OnFault.SKIP,
        ),
        registry(),
    )
    assert Everywhere.made == 1
    plugins: list[object] = [profile.queue_sort, *profile.reserves]
    plugins += [profile.filters[0].plugin, profile.scores[0].plugin, profile.choosers[0].plugin]
    assert len(plugins) == 5
    assert all(plugin is plugins[0] for plugin in plugins)
    (scorer,) = profile.scores
    assert scorer.prepare is None  # not enabled at PreScore
    assert profile.on_fault is OnFault.SKIP
    outcome = cycle.run(fleet_of("a").snapshot(), Work(), profile, now=0)
    assert outcome.totals_by_name() == {"a": 7}


def test_weight_0_means_1_and_the_order_of_the_spec_counts() -> None:
    profile = build_profile(spec(Score=(Enabled("Two", 3), Enabled("One"))), registry())
    assert [(scorer.plugin.name, scorer.weight) for scorer in profile.scores] == [("Two", 3), ("One", 1)]


@pytest.mark.parametrize(
    ("points", "message", "plugin"),
    [
        (
            {"Score": (Enabled("One", -1),)},
            "profile toy: the weight of plugin One at Score must be at least 1, or 0 for the default of 1; got -1",
            "One",
        ),
        (
            {"Score": (Enabled("One", LARGEST_WEIGHT_SUM), Enabled("Two"))},
            f"profile toy: the weights of its Score plugins add up to {LARGEST_WEIGHT_SUM + 1}, so that totals may "
            f"exceed 64 bits; the largest sum is {LARGEST_WEIGHT_SUM}",
            "",
        ),
        (
            {"QueueSort": (Enabled("Everywhere"), Enabled("Sort"))},
            "profile toy: Everywhere and Sort are enabled at QueueSort, and a queue has one order: keep one of them",
            "Sort",
        ),
        (
            {"Filter": (Enabled("One"),)},
            "profile toy: plugin One does not implement Filter, only Score: remove it there",
            "One",
        ),
        (
            {"Filter": (Enabled("Nothing"),)},
            "profile toy: plugin Nothing does not implement Filter, nor any other extension point",
            "Nothing",
        ),
        (
            {"Score": (Enabled("One"), Enabled("One", 2))},
            "profile toy: plugin One is enabled twice at Score: remove one of the two",
            "One",
        ),
        (
            {"NormalizeScore": (Enabled("One"),)},
            "profile toy: plugin One cannot be enabled at NormalizeScore, which comes with Score",
            "One",
        ),
        (
            {"Filters": ()},
            "profile toy: there is no extension point Filters; write one of PreEnqueue, QueueSort, Prioritize, "
            "PreFilter, Filter, PostFilter, PreScore, Score, Choose, Reserve, Permit, PreBind, Bind, PostBind",
            "",
        ),
        (
            {"Score": (Enabled("Onne"),)},
            "plugin Onne is not registered; did you mean One?",
            "Onne",
        ),
    ],
)
def test_profile_is_refused_with_the_plugin_and_the_remedy(
    points: dict[str, tuple[Enabled, ...]], message: str, plugin: str
) -> None:
    with pytest.raises(ProfileError) as refused:
        build_profile(spec(**points), registry())
    assert (str(refused.value), refused.value.plugin) == (message, plugin)


def test_largest_sum_of_weights_is_accepted() -> None:
    weights = (Enabled("One", LARGEST_WEIGHT_SUM - 1), Enabled("Two"))
    assert len(build_profile(spec(Score=weights), registry()).scores) == 2


def test_args_of_an_unknown_plugin_are_refused() -> None:
    with pytest.raises(UnknownPluginError, match="plugin Other is not registered"):
        build_profile(ProfileSpec(name="toy", args={"Other": {}}), registry())
