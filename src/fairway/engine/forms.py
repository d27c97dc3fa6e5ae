# mypy: disable-error-code="type-abstract"
"""Which extension points and optional forms a plugin implements, found once, when a profile is built.

The cycle then calls typed fields: ``calls.fleet.filter_fleet(...)`` if ``calls.fleet`` is not None.
"""

from collections.abc import Mapping
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast

from fairway.engine.choice import BestHosts
from fairway.engine.points import (
    EXTENSION_POINTS,
    ChoiceExplainer,
    Choose,
    CommitReader,
    Filter,
    FilterWarnings,
    FleetFilter,
    FleetScore,
    FullCycles,
    GateReader,
    HostWarnings,
    NormalizeScore,
    PreFilter,
    PreScore,
    Reader,
    Releases,
    Remarks,
    RowPreFilter,
    Score,
    SharedReader,
    Signer,
    Waker,
    Weighted,
    is_timeless,
)
from fairway.engine.remedies import ChoiceRemedies, FilterRemedies, ScoreRemedies
from fairway.engine.status import Status
from fairway.hosts.bitmap import Bits

_FORMS: tuple[type[Any], ...] = (
    *EXTENSION_POINTS.values(),
    RowPreFilter,
    FleetFilter,
    FleetScore,
    HostWarnings,
    FilterWarnings,
    Remarks,
    Reader,
    SharedReader,
    FullCycles,
    Signer,
    Waker,
    ChoiceExplainer,
    GateReader,
    Releases,
    CommitReader,
    FilterRemedies,
    ScoreRemedies,
    ChoiceRemedies,
)
_METHODS = {
    form: [
        name for base in form.__mro__ for name in vars(base) if not name.startswith("_") and name != "name"
    ]
    for form in _FORMS
}
_KNOWN: dict[type[Any], frozenset[type[Any]]] = {}
_KNOWN_SCORES: dict[type[Any], tuple[bool, ...]] = {}

PointT = TypeVar("PointT")


def forms_of(kind: type[Any]) -> frozenset[type[Any]]:
    """Return the extension points and forms that a plugin class implements."""
    forms = _KNOWN.get(kind)
    if forms is None:
        forms = _KNOWN[kind] = frozenset(
            form for form, methods in _METHODS.items() if all(hasattr(kind, name) for name in methods)
        )
    return forms


def points_of(kind: type[Any]) -> frozenset[str]:
    """Return the names of the extension points and forms that a plugin class implements."""
    return frozenset(form.__name__ for form in forms_of(kind))


def calls_of(kind: type[Any]) -> Mapping[str, FunctionType]:
    """Return the methods of a plugin class that the engine calls, each as its extension point or form declares it."""
    return {
        name: function
        for form in forms_of(kind)
        for name, function in vars(form).items()
        if name in _METHODS[form] and isinstance(function, FunctionType)
    }


def find_form(plugin: object, form: type[PointT]) -> PointT | None:
    """Return the plugin if it implements the form."""
    return cast("PointT", plugin) if form in forms_of(type(plugin)) else None


class PreFilterCalls(NamedTuple):
    plugin: PreFilter
    by_row: RowPreFilter | None
    reader: Reader | None
    timed: Reader | None
    """The reader, if its results change by time."""
    remedies: FilterRemedies | None


class FilterCalls(NamedTuple):
    plugin: Filter
    fleet: FleetFilter | None
    warner: FilterWarnings | None
    waker: Waker | None
    reader: Reader | None
    timed: Reader | None
    """The reader, if its results change by time."""
    remedies: FilterRemedies | None


class ScoreCalls(NamedTuple):
    plugin: Score
    weight: int
    missing: int
    """The score of hosts for which the plugin has none."""
    prepare: PreScore | None
    fleet: FleetScore | None
    normalizer: NormalizeScore | None
    warner: HostWarnings | None
    remarks: Remarks | None
    reader: Reader | None
    timed: Reader | None
    remedies: ScoreRemedies | None


class ChooseCalls(NamedTuple):
    plugin: Choose
    explainer: ChoiceExplainer | None
    remedies: ChoiceRemedies | None
    by_rank: bool
    """Whether the choice is always that of ``BestHosts``, so that an incremental cycle can make it."""
    timed: Reader | None = None
    """The reader, if its choice changes by time."""


def pre_filter_calls(plugin: PreFilter) -> PreFilterCalls:
    return PreFilterCalls(
        plugin=plugin,
        by_row=find_form(plugin, RowPreFilter),
        reader=find_form(plugin, Reader),
        timed=None if is_timeless(type(plugin)) else find_form(plugin, Reader),
        remedies=find_form(plugin, FilterRemedies),
    )


def filter_calls(plugin: Filter) -> FilterCalls:
    return FilterCalls(
        plugin=plugin,
        fleet=find_form(plugin, FleetFilter),
        warner=find_form(plugin, FilterWarnings),
        waker=find_form(plugin, Waker),
        reader=find_form(plugin, Reader),
        timed=None if is_timeless(type(plugin)) else find_form(plugin, Reader),
        remedies=find_form(plugin, FilterRemedies),
    )


def score_calls(weighted: Weighted, *, prepares: bool = True) -> ScoreCalls:
    """``prepares`` is whether the plugin's PreScore is enabled."""
    plugin: Any
    plugin, weight, missing = weighted
    forms = _score_forms(type(plugin))
    prepare, fleet, normalizer, warner, remarks, reader, timed, remedies = [
        plugin if implemented else None for implemented in forms
    ]
    if not prepares:
        prepare = warner = None
    return ScoreCalls(
        plugin, weight, missing, prepare, fleet, normalizer, warner, remarks, reader, timed, remedies
    )


def _score_forms(kind: type[Any]) -> tuple[bool, ...]:
    """Return which fields of ScoreCalls, in their order, hold a plugin of this class."""
    implemented = _KNOWN_SCORES.get(kind)
    if implemented is None:
        forms = forms_of(kind)
        fields = (PreScore, FleetScore, NormalizeScore, HostWarnings, Remarks, Reader)
        timed = Reader in forms and not is_timeless(kind)
        implemented = (*[form in forms for form in fields], timed, ScoreRemedies in forms)
        _KNOWN_SCORES[kind] = implemented
    return implemented


def choose_calls(plugin: Choose) -> ChooseCalls:
    return ChooseCalls(
        plugin=plugin,
        explainer=find_form(plugin, ChoiceExplainer),
        remedies=find_form(plugin, ChoiceRemedies),
        by_rank=type(plugin) is BestHosts,
        timed=None if is_timeless(type(plugin)) else find_form(plugin, Reader),
    )


class CyclePlugins(NamedTuple):
    """The plugins of a profile that apply to one workload."""

    pre_filters: tuple[PreFilterCalls, ...]
    admitted: tuple[Bits | None, ...]
    """The rows that each PreFilter plugin returned."""
    filters: tuple[FilterCalls, ...]
    scores: tuple[ScoreCalls, ...]
    refusal: Status | None = None
    """Why the workload cannot be scored."""

    @property
    def timed(self) -> tuple[Reader, ...]:
        """Return the plugins whose results change by time."""
        readers = [calls.timed for calls in self.pre_filters if calls.timed is not None]
        readers += [calls.timed for calls in self.filters if calls.timed is not None]
        readers += [scorer.timed for scorer in self.scores if scorer.timed is not None]
        return tuple(readers)

    @property
    def readers(self) -> tuple[Reader | None, ...]:
        """Return one of each plugin: of those that decide whether a host is feasible first."""
        return (
            *(calls.reader for calls in self.pre_filters),
            *(calls.reader for calls in self.filters),
            *(scorer.reader for scorer in self.scores),
        )
