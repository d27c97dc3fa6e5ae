"""Convert a Placement to its profile and workload."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fairway.api.meta import unreadable_within
from fairway.api.placement import (
    ADDITIVE,
    BUILT_IN,
    EXACT,
    SCHEDULING_DISABLED_ANNOTATION,
    Placement,
    PrioritizerConfig,
    ScoreCoordinate,
)
from fairway.engine.points import Filter, Score, Weighted
from fairway.engine.profile import Profile, assemble
from fairway.engine.status import Status, misconfigured
from fairway.plugins.addon_score import AddOnScore
from fairway.plugins.allocatable import RESOURCES, Allocatable
from fairway.plugins.balance import NAME as BALANCE
from fairway.plugins.balance import Balance
from fairway.plugins.calculator import Calculator
from fairway.plugins.clustersets import ClusterSets
from fairway.plugins.missing_score import AddOn, Calculated, MissingScore, Wanted
from fairway.plugins.predicate import Predicate
from fairway.plugins.spread import Spread
from fairway.plugins.steady import NAME as STEADY
from fairway.plugins.steady import Steady
from fairway.plugins.taint_preference import NAME as TAINT_PREFERENCE
from fairway.plugins.taint_preference import TaintPreference
from fairway.plugins.taints import TaintToleration
from fairway.plugins.trust import Missing, Trust, trust_of
from fairway.plugins.work_budget import Pace

WRONG_MODE = "incorrect prioritizer policy mode: {mode}"
COORDINATE_NEEDED = "scoreCoordinate field is required"
ADDON_NEEDED = "addOn should not be empty"
TOO_MANY = (
    "spec.prioritizerPolicy.configurations has {count} entries, each of which is evaluated for every cluster; "
    "write at most {most}"
)
MOST_PRIORITIZERS = 1000
UNREADABLE = "{field} cannot be read: {reason}"

DEFAULTS = (BALANCE, STEADY)
"""Default prioritizers in mode Additive, with weight 1."""
BUILT_INS = (BALANCE, STEADY, TAINT_PREFERENCE, *RESOURCES)
"""Built-in prioritizers, which no ManagedClusterScore of the same name replaces."""
_BUILT_IN_OF = {name.lower(): name for name in BUILT_INS}


def built_in_named_like(calculator: str | None) -> str | None:
    """Return the built-in prioritizer that hides a calculator of the same name."""
    return None if calculator is None else _BUILT_IN_OF.get(calculator.lower())


class PlacementWorkload:
    """A Placement as a workload of the engine, with its profile."""

    __slots__ = ("pace", "placement", "profile", "trust")

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self.trust = trust_of(placement.metadata.annotations)
        self.pace = Pace()
        """Slice of expression work that one attempt may do; unlimited by default."""
        self.profile = profile_of(placement, trust=self.trust, pace=self.pace)

    @property
    def namespace(self) -> str:
        return self.placement.metadata.namespace

    @property
    def name(self) -> str:
        return self.placement.metadata.name

    @property
    def wanted(self) -> int | None:
        number = self.placement.spec.numberOfClusters
        return None if number is None else max(0, number)

    @property
    def idle(self) -> bool:
        """Whether scheduling of this placement is disabled."""
        meta = self.placement.metadata
        return (
            meta.deletionTimestamp is not None
            or meta.annotations.get(SCHEDULING_DISABLED_ANNOTATION) == "true"
        )


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a prioritizer policy. Entries with equal identity replace one another."""

    identity: object
    coordinate: ScoreCoordinate
    weight: int


class _RefusedError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.status = misconfigured(reason)


def profile_of(placement: Placement, *, trust: Trust | None = None, pace: Pace | None = None) -> Profile:
    spec = placement.spec
    trust = trust or trust_of(placement.metadata.annotations)
    owner = (placement.metadata.namespace, placement.metadata.name)
    scores: tuple[Weighted, ...] = ()
    refusal: Status | None = None
    try:
        scores = tuple(_scores(placement, owner, trust))
    except _RefusedError as error:
        refusal = error.status
    if (unreadable := unreadable_within(placement, "spec")) is not None:
        refusal = misconfigured(UNREADABLE.format(field=unreadable.path, reason=unreadable.reason))
    filters: list[Filter] = [
        Predicate(predicates=spec.predicates, hides_expired=trust.hides_expired, pace=pace),
        TaintToleration(tolerations=spec.tolerations, owner=owner),
    ]
    spread = Spread(constraints=spec.spreadPolicy.spreadConstraints)
    if spread.hard:
        filters.append(spread)
    known = tuple(dict.fromkeys(_excluding(scores, trust)))
    if known:
        filters.append(MissingScore(wanted=known))
    return assemble(
        name="placement",
        pre_filters=(ClusterSets(namespace=owner[0], wanted=spec.clusterSets),),
        filters=tuple(filters),
        scores=scores,
        refusal=refusal,
        choosers=(spread,),
    )


def _scores(placement: Placement, owner: tuple[str, str], trust: Trust) -> Iterable[Weighted]:
    builtin: dict[str, Callable[[], Score]] = {
        BALANCE: lambda: Balance(owner=owner),
        STEADY: lambda: Steady(owner=owner),
        TAINT_PREFERENCE: lambda: TaintPreference(tolerations=placement.spec.tolerations),
    }
    for entry in _entries(placement):
        if entry.weight == 0:
            continue
        coordinate = entry.coordinate
        if coordinate.type != BUILT_IN:
            if coordinate.addOn is None:
                raise _RefusedError(ADDON_NEEDED)
            resource, score = coordinate.addOn.resourceName, coordinate.addOn.scoreName
            missing = trust.addon(resource, score)
            debits = (resource, score) in trust.debits
            addon = AddOnScore(resource=resource, score=score, missing=missing, debits=debits)
            yield Weighted(addon, entry.weight, missing.points(entry.weight))
            continue
        name = coordinate.builtIn
        make = builtin.get(name)
        if make is not None:
            yield Weighted(make(), entry.weight)
        elif name in RESOURCES:
            yield Weighted(Allocatable(name=name), entry.weight)
        else:
            missing = trust.calculator(name)
            yield Weighted(Calculator(name=name, missing=missing), entry.weight, missing.points(entry.weight))


def _excluding(scores: Iterable[Weighted], trust: Trust) -> Iterable[Wanted]:
    """Return the scores that a cluster must have to be feasible."""
    for each in scores:
        plugin = each.plugin
        if isinstance(plugin, AddOnScore):
            if trust.addon(plugin.resource, plugin.score_name) is Missing.EXCLUDE:
                yield AddOn(plugin.resource, plugin.score_name)
        elif isinstance(plugin, Calculator) and trust.calculator(plugin.name) is Missing.EXCLUDE:
            yield Calculated(plugin.name)


def _entries(placement: Placement) -> Iterable[_Entry]:
    policy = placement.spec.prioritizerPolicy
    mode = "" if policy is None else policy.mode
    if mode not in ("", ADDITIVE, EXACT):
        raise _RefusedError(WRONG_MODE.format(mode=mode))
    if policy is not None and len(policy.configurations) > MOST_PRIORITIZERS:
        count = len(policy.configurations)
        raise _RefusedError(TOO_MANY.format(count=count, most=MOST_PRIORITIZERS))
    entries: dict[object, _Entry] = {}
    if mode != EXACT:
        for name in DEFAULTS:
            coordinate = ScoreCoordinate(type=BUILT_IN, builtIn=name)
            entry = _Entry(_identity(coordinate, at=0), coordinate, 1)
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
