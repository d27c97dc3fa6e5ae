"""PrioritizerPolicy: selects the Score plugins of a placement, with the weights of its prioritizerPolicy.

A ``BuiltIn`` names a Score plugin of the profile's registry, or else a calculator, whose scores ManagedClusterScores
publish. An ``AddOn`` names a score of AddOnPlacementScores. In mode Additive, the Score plugins that the profile
enables count as well, unless the policy gives them another weight.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final
from weakref import WeakValueDictionary

from fairway.api.meta import unreadable_within
from fairway.api.placement import ADDITIVE, BUILT_IN, EXACT, ScoreCoordinate
from fairway.api.placement import PrioritizerPolicy as Policy
from fairway.clusters.debits import Deltas
from fairway.engine.points import Context, Prioritization, Scorers, Weighted
from fairway.engine.status import misconfigured
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
        placement = workload.placement
        annotations, policy = placement.metadata.annotations, placement.spec.prioritizerPolicy
        if (unreadable := unreadable_within(placement, "spec")) is not None:
            words = UNREADABLE.format(field=unreadable.path, reason=unreadable.reason)
            scores = self._resolve(workload, scorers).scores
            return Prioritization(scores=scores, refusal=misconfigured(words, field=unreadable.path))
        if policy is not None and len(policy.configurations) > SHARED_ENTRIES:
            return self._resolve(workload, scorers)
        key = (policy, annotations.get(MISSING_SCORE), annotations.get(SCORE_DEBITS))
        found = self._shared.get(key)
        if found is None:
            if len(self._shared) >= SHARED_POLICIES:
                del self._shared[next(iter(self._shared))]
            found = self._shared[key] = self._resolve(workload, scorers)
        return found

    def _resolve(self, workload: PlacementWorkload, scorers: Scorers) -> Prioritization:
        try:
            return Prioritization(scores=tuple(self._scores(workload, scorers)))
        except _RefusedError as error:
            return Prioritization(refusal=error.status)

    def _scores(self, workload: PlacementWorkload, scorers: Scorers) -> list[Weighted]:
        trust = workload.trust
        found: list[Weighted] = []
        for coordinate, weight in _entries(workload.placement.spec.prioritizerPolicy, scorers.defaults):
            if weight == 0:
                continue
            if coordinate.type != BUILT_IN:
                if coordinate.addOn is None:
                    raise _RefusedError(ADDON_NEEDED)
                addon = self._addon(coordinate.addOn.resourceName, coordinate.addOn.scoreName, trust)
                found.append(Weighted(addon, weight, addon.missing.points(weight)))
                continue
            name = coordinate.builtIn
            if name in scorers.unusable:
                raise _RefusedError(scorers.unusable[name])
            registered = scorers.registered.get(name)
            if registered is not None:
                found.append(Weighted(registered, weight))
            else:
                calculator = self._calculator(name, trust)
                found.append(Weighted(calculator, weight, calculator.missing.points(weight)))
        return found

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


class _RefusedError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.status = misconfigured(reason, field=FIELD)


def _entries(policy: Policy | None, defaults: tuple[Weighted, ...]) -> Iterable[tuple[ScoreCoordinate, int]]:
    """Return coordinates and weights. A later entry for the same built-in replaces the earlier one, at its place."""
    mode = "" if policy is None else policy.mode
    if mode not in ("", ADDITIVE, EXACT):
        raise _RefusedError(WRONG_MODE.format(mode=mode))
    configurations = () if policy is None else policy.configurations
    if len(configurations) > MOST_PRIORITIZERS:
        raise _RefusedError(TOO_MANY.format(count=len(configurations), most=MOST_PRIORITIZERS))
    entries: dict[object, tuple[ScoreCoordinate, int]] = {}
    if mode != EXACT:
        for plugin, weight, _ in defaults:
            entries[BUILT_IN, plugin.name] = _built_in(plugin.name), weight
    for at, configuration in enumerate(configurations):
        coordinate = configuration.scoreCoordinate
        if coordinate is None:
            raise _RefusedError(COORDINATE_NEEDED)
        identity = at if coordinate.addOn is not None else (coordinate.type, coordinate.builtIn)
        entries[identity] = coordinate, configuration.weight
    return entries.values()


@cache
def _built_in(name: str) -> ScoreCoordinate:
    return ScoreCoordinate(type=BUILT_IN, builtIn=name)
