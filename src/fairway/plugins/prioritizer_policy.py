"""PrioritizerPolicy: selects the Score plugins of a placement, with the weights of its prioritizerPolicy.

A ``BuiltIn`` names a Score plugin of the profile's registry, or else a calculator, whose scores ManagedClusterScores
publish. An ``AddOn`` names a score of AddOnPlacementScores. In mode Additive, the Score plugins that the profile
enables count as well, unless the policy gives them another weight.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from fairway.api.meta import unreadable_within
from fairway.api.placement import ADDITIVE, BUILT_IN, EXACT, Placement, PrioritizerConfig, ScoreCoordinate
from fairway.api.placement import PrioritizerPolicy as Policy
from fairway.clusters.debits import Deltas
from fairway.engine.points import Context, Prioritization, Scorers, Weighted
from fairway.engine.status import Status, misconfigured
from fairway.plugins.addon_score import AddOnScore
from fairway.plugins.allocatable import RESOURCES
from fairway.plugins.balance import NAME as BALANCE
from fairway.plugins.calculator import FIELD, Calculator
from fairway.plugins.placement_workload import PlacementWorkload, placement_of
from fairway.plugins.score_debits import SCORE_DEBITS, check_debits
from fairway.plugins.steady import NAME as STEADY
from fairway.plugins.taint_preference import NAME as TAINT_PREFERENCE
from fairway.plugins.trust import MISSING_SCORE, Missing, Trust

NAME: Final = "PrioritizerPolicy"

WRONG_MODE: Final = "incorrect prioritizer policy mode: {mode}"
COORDINATE_NEEDED: Final = "scoreCoordinate field is required"
ADDON_NEEDED: Final = "addOn should not be empty"
TOO_MANY: Final = (
    "spec.prioritizerPolicy.configurations has {count} entries, each of which is evaluated for every cluster; "
    "write at most {most}"
)
MOST_PRIORITIZERS: Final = 1000
SHARED_POLICIES: Final = 256
"""Maximum number of policies whose plugins are kept for other placements."""
SHARED_ENTRIES: Final = 16
"""Maximum number of entries of such a policy."""
UNREADABLE: Final = "{field} cannot be read: {reason}"

DEFAULTS: Final = (BALANCE, STEADY)
"""Prioritizers in mode Additive that the default profile enables, with weight 1."""
BUILT_INS: Final = (BALANCE, STEADY, TAINT_PREFERENCE, *RESOURCES)
"""Built-in prioritizers, which no ManagedClusterScore of the same name replaces."""
_BUILT_IN_OF: Final = {name.lower(): name for name in BUILT_INS}


def built_in_named_like(calculator: str | None) -> str | None:
    """Return the built-in prioritizer that hides a calculator of the same name."""
    return None if calculator is None else _BUILT_IN_OF.get(calculator.lower())


class PrioritizerPolicy:
    """Placements with equal policies share the plugins and their prepared calls, because fleets have few policies.
    Placements that use the same published score share the plugin that reads it, as long as one of them exists."""

    name = NAME

    def __init__(self, *, debits: Mapping[str, int] | None = None) -> None:
        """``debits`` are the score debits of all placements that rank by the score, such as ``resource/score: -5``."""
        self.debits: Deltas = check_debits(debits or {})
        self._addons: WeakValueDictionary[tuple[str, str, Missing, int | None], AddOnScore] = (
            WeakValueDictionary()
        )
        self._calculators: WeakValueDictionary[tuple[str, Missing], Calculator] = WeakValueDictionary()
        self._shared: dict[tuple[Policy | None, str | None, str | None], Prioritization] = {}
        """By policy and annotations, least recently added first."""

    def prioritize(self, context: Context, scorers: Scorers, /) -> Prioritization:
        workload = placement_of(context)
        known = workload.derive(_prioritizations)
        found = known.get(self)
        if found is None:
            found = known[self] = self._share(workload, scorers)
        context.state.write(NAME, found)
        return found

    def _share(self, workload: PlacementWorkload, scorers: Scorers) -> Prioritization:
        meta, policy = workload.placement.metadata, workload.placement.spec.prioritizerPolicy
        if policy is not None and len(policy.configurations) > SHARED_ENTRIES:
            return self._resolve(workload, scorers)
        if unreadable_within(workload.placement, "spec") is not None:
            return self._resolve(workload, scorers)
        key = (policy, meta.annotations.get(MISSING_SCORE), meta.annotations.get(SCORE_DEBITS))
        found = self._shared.get(key)
        if found is None:
            if len(self._shared) >= SHARED_POLICIES:
                del self._shared[next(iter(self._shared))]
            found = self._shared[key] = self._resolve(workload, scorers)
        return found

    def _resolve(self, workload: PlacementWorkload, scorers: Scorers) -> Prioritization:
        scores: tuple[Weighted, ...] = ()
        refusal: Status | None = None
        try:
            scores = tuple(self._scores(workload, scorers))
        except _RefusedError as error:
            refusal = error.status
        if (unreadable := unreadable_within(workload.placement, "spec")) is not None:
            words = UNREADABLE.format(field=unreadable.path, reason=unreadable.reason)
            refusal = misconfigured(words, field=unreadable.path)
        return Prioritization(scores=scores, refusal=refusal)

    def _scores(self, workload: PlacementWorkload, scorers: Scorers) -> Iterable[Weighted]:
        trust = workload.trust
        for entry in _entries(workload.placement, scorers.defaults):
            if entry.weight == 0:
                continue
            coordinate = entry.coordinate
            if coordinate.type != BUILT_IN:
                if coordinate.addOn is None:
                    raise _RefusedError(ADDON_NEEDED)
                addon = self._addon(coordinate.addOn.resourceName, coordinate.addOn.scoreName, trust)
                yield Weighted(addon, entry.weight, addon.missing.points(entry.weight))
                continue
            name = coordinate.builtIn
            if name in scorers.unusable:
                raise _RefusedError(scorers.unusable[name])
            registered = scorers.registered.get(name)
            if registered is not None:
                yield Weighted(registered, entry.weight)
            else:
                calculator = self._calculator(name, trust)
                yield Weighted(calculator, entry.weight, calculator.missing.points(entry.weight))

    def _addon(self, resource: str, score: str, trust: Trust) -> AddOnScore:
        missing, debit = trust.addon(resource, score), trust.debits.get((resource, score))
        key = (resource, score, missing, debit)
        found = self._addons.get(key)
        if found is None:
            found = AddOnScore(resource=resource, score=score, missing=missing, debit=debit)
            self._addons[key] = found
        return found

    def _calculator(self, name: str, trust: Trust) -> Calculator:
        key = (name, trust.calculator(name))
        found = self._calculators.get(key)
        if found is None:
            found = self._calculators[key] = Calculator(name=name, missing=key[1])
        return found


def _prioritizations(_workload: PlacementWorkload) -> dict[PrioritizerPolicy, Prioritization]:
    """Return a cache by plugin: a placement may be tried with several profiles."""
    return {}


class _Entry(NamedTuple):
    """An entry of a prioritizer policy. Entries with equal identity replace one another."""

    identity: object
    coordinate: ScoreCoordinate
    weight: int


class _RefusedError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.status = misconfigured(reason, field=FIELD)


def _entries(placement: Placement, defaults: Iterable[Weighted]) -> Iterable[_Entry]:
    policy = placement.spec.prioritizerPolicy
    mode = "" if policy is None else policy.mode
    if mode not in ("", ADDITIVE, EXACT):
        raise _RefusedError(WRONG_MODE.format(mode=mode))
    if policy is not None and len(policy.configurations) > MOST_PRIORITIZERS:
        count = len(policy.configurations)
        raise _RefusedError(TOO_MANY.format(count=count, most=MOST_PRIORITIZERS))
    entries: dict[object, _Entry] = {}
    if mode != EXACT:
        for each in defaults:
            coordinate = ScoreCoordinate(type=BUILT_IN, builtIn=each.plugin.name)
            entry = _Entry(_identity(coordinate, at=0), coordinate, each.weight)
            entries[entry.identity] = entry
    configurations: tuple[PrioritizerConfig, ...] = () if policy is None else policy.configurations
    for at, configuration in enumerate(configurations):
        coordinate_given = configuration.scoreCoordinate
        if coordinate_given is None:
            raise _RefusedError(COORDINATE_NEEDED)
        entry = _Entry(_identity(coordinate_given, at=at), coordinate_given, configuration.weight)
        entries[entry.identity] = entry
    return entries.values()


def _identity(coordinate: ScoreCoordinate, *, at: int) -> object:
    """Return the identity: the name for built-ins, the position for add-on scores."""
    if coordinate.addOn is not None:
        return ("AddOn", at)
    return (coordinate.type, coordinate.builtIn)
