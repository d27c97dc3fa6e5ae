"""PrioritizerPolicy: selects the Score plugins of a placement, with the weights of its prioritizerPolicy.

A ``BuiltIn`` names a Score plugin of the profile's registry, or else a calculator, whose scores ManagedClusterScores
publish. An ``AddOn`` names a score of AddOnPlacementScores. In mode Additive, the Score plugins that the profile
enables count as well, unless the policy gives them another weight.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final
from weakref import WeakValueDictionary

from fairway.api.placement import ADDITIVE, BUILT_IN, EXACT, ScoreCoordinate
from fairway.api.placement import PrioritizerPolicy as Policy
from fairway.engine.points import Context, Prioritization, Scorers, Weighted
from fairway.engine.status import misconfigured
from fairway.hosts.clusters.debits import DebitRules
from fairway.workloads.placement.plugins.addon_score import AddOnScore
from fairway.workloads.placement.plugins.allocatable import RESOURCES
from fairway.workloads.placement.plugins.balance import NAME as BALANCE
from fairway.workloads.placement.plugins.calculator import FIELD, Calculator
from fairway.workloads.placement.plugins.score_debits import check_debits, check_ignored
from fairway.workloads.placement.plugins.steady import NAME as STEADY
from fairway.workloads.placement.plugins.taint_preference import NAME as TAINT_PREFERENCE
from fairway.workloads.placement.plugins.trust import MISSING_SCORE, Missing, Trust
from fairway.workloads.placement.workload import PlacementWorkload, placement_of
from kubewire.api.meta import unreadable_within

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

    def __init__(
        self,
        *,
        debits: Mapping[str, int] | None = None,
        debitsIgnored: Sequence[str] = (),  # noqa: N803 -- the name in the file
    ) -> None:
        """``debits`` are the score debits of all placements that rank by the score, such as ``resource/score: -5``.
        ``debitsIgnored`` are namespaces whose placements make none, whatever their annotations are."""
        self.debits = DebitRules(defaults=check_debits(debits or {}), ignored=check_ignored(debitsIgnored))
        self._addons: WeakValueDictionary[tuple[str, str, Missing, int | None, bool], AddOnScore] = (
            WeakValueDictionary()
        )
        self._calculators: WeakValueDictionary[tuple[str, Missing], Calculator] = WeakValueDictionary()
        self._shared: dict[tuple[Policy | None, str | None, frozenset[object]], Prioritization] = {}
        """By policy, annotation and debits, least recently added first."""

    def prioritize(self, context: Context, scorers: Scorers, /) -> Prioritization:
        workload = placement_of(context)
        known = workload.derive(_prioritizations)
        prioritization = known.get(self)
        if prioritization is None:
            prioritization = known[self] = self._share(workload, scorers)
        context.state.write(NAME, prioritization)
        return prioritization

    def _share(self, workload: PlacementWorkload, scorers: Scorers) -> Prioritization:
        placement = workload.placement
        annotations, policy = placement.metadata.annotations, placement.spec.prioritizerPolicy
        if (unreadable := unreadable_within(placement, "spec")) is not None:
            words = UNREADABLE.format(field=unreadable.path, reason=unreadable.reason)
            scores = self._resolve(workload, scorers).scores
            return Prioritization(scores=scores, refusal=misconfigured(words, field=unreadable.path))
        if policy is not None and len(policy.configurations) > SHARED_ENTRIES:
            return self._resolve(workload, scorers)
        key = (policy, annotations.get(MISSING_SCORE), frozenset(workload.trust.debits.items()))
        prioritization = self._shared.get(key)
        if prioritization is None:
            if len(self._shared) >= SHARED_POLICIES:
                del self._shared[next(iter(self._shared))]
            prioritization = self._shared[key] = self._resolve(workload, scorers)
        return prioritization

    def _resolve(self, workload: PlacementWorkload, scorers: Scorers) -> Prioritization:
        try:
            return Prioritization(scores=tuple(self._scores(workload, scorers)))
        except _RefusedError as error:
            return Prioritization(refusal=error.status)

    def _scores(self, workload: PlacementWorkload, scorers: Scorers) -> list[Weighted]:
        trust = workload.trust
        weighted: list[Weighted] = []
        for coordinate, weight in _entries(workload.placement.spec.prioritizerPolicy, scorers.defaults):
            if weight == 0:
                continue
            if coordinate.type != BUILT_IN:
                if coordinate.addOn is None:
                    raise _RefusedError(ADDON_NEEDED)
                addon = self._addon(coordinate.addOn.resourceName, coordinate.addOn.scoreName, trust, weight)
                weighted.append(Weighted(addon, weight, addon.missing.points(weight)))
                continue
            name = coordinate.builtIn
            if name in scorers.unusable:
                raise _RefusedError(scorers.unusable[name])
            registered = scorers.registered.get(name)
            if registered is not None:
                weighted.append(Weighted(registered, weight))
            else:
                calculator = self._calculator(name, trust)
                weighted.append(Weighted(calculator, weight, calculator.missing.points(weight)))
        return weighted

    def _addon(self, resource: str, score: str, trust: Trust, weight: int) -> AddOnScore:
        missing, debit = trust.addon(resource, score), trust.debits.get((resource, score))
        rises = debit is not None and weight < 0
        key = (resource, score, missing, debit, rises)
        addon = self._addons.get(key)
        if addon is None:
            addon = AddOnScore(resource=resource, score=score, missing=missing, debit=debit, rises=rises)
            self._addons[key] = addon
        return addon

    def _calculator(self, name: str, trust: Trust) -> Calculator:
        key = (name, trust.calculator(name))
        calculator = self._calculators.get(key)
        if calculator is None:
            calculator = self._calculators[key] = Calculator(name=name, missing=key[1])
        return calculator


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
