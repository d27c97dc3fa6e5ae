"""The scores of resource usage: names, sources and scales.

In a linear score, values beyond the limit all score 100, and values far below it share a few points. Limits per cluster
would make scores of two clusters incomparable. So the scores of OCM's first example keep its formula, ``100 * x /
max``, and its limits, and the others are logarithmic by default: a point is the same few per cent for small and large
clusters.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from fairway.api.pod_requests import CPU, HUGE_PAGES_PREFIX, MEMORY, PODS
from fairway.providers.catalogue import OptionsError
from fairway.providers.provider import LOWEST, Scale, Score
from fairway.providers.scales import Inverted, Linear, Logarithmic
from fairway.providers.usage.accounting import Totals
from fairway.providers.usage.options import RESOURCES, Spread, UsageOptions

SLOTS: Final = "slots.{shape}"
PODS_AVAILABLE: Final = "podsAvailable"
PODS_PENDING: Final = "podsPending"

UNKNOWN_SCORE: Final = "there is no score {given!r}{hint}; there are {known}"
UNKNOWN_LIMIT: Final = "there is no score {given!r} and none begins with it{hint}; there are {known}"
NEAR: Final = ", did you mean {near!r}?"

RATIOS: Final = {"ResourceRatioCPU": CPU, "ResourceRatioMemory": MEMORY}
"""Calculators in OCM's proposal of ManagedClusterScore."""

GIB: Final = 2.0**30
_EPHEMERAL: Final = "ephemeral-storage"
_DECADES: Final = 1e4
"""Ratio of the highest to the lowest value of a logarithmic scale."""
_LEAST_COUNT: Final = 0.5
"""Less than one, so that the last one still scores."""

_LINEAR: Final = {CPU: 100.0, MEMORY: 1024.0}
"""Limits of OCM's add-on: cores, GiB."""
_LINEAR_DEVICES: Final = 20.0
_CLUSTER: Final = {CPU: 10_000.0, MEMORY: 40_000.0}
_CLUSTER_OTHER: Final = 10_000.0
_NODE: Final = {CPU: 1_000.0, MEMORY: 4_000.0}
_NODE_OTHER: Final = 100.0
_MOST_PODS: Final = 100_000.0
_MOST_SLOTS: Final = 10_000.0
_MOST_PENDING: Final = 10_000.0
_BUGGY_MEMORY: Final = 2.0**20 / GIB
"""OCM's add-on interprets bytes as MiB: one mebibyte scores 100."""

Measurement = Callable[[Totals], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    score: Score
    measure: Measurement
    """Raw value in the score's unit; None if the cluster has no such resource."""


def measures(options: UsageOptions) -> tuple[Measure, ...]:
    """Raises OptionsError for unknown scores and limits."""
    measures = tuple(_upstream_measures(options) if options.parity != "none" else _default_measures(options))
    names = [measure.score.name for measure in measures]
    for index, name in enumerate(options.scores):
        if name not in names:
            raise _unknown(UNKNOWN_SCORE, name, names, f"scores[{index}]")
    limited = [*options.resources, PODS, "slots", *names]
    for name in options.limits:
        if name not in limited:
            raise _unknown(UNKNOWN_LIMIT, name, limited, f"limits.{name}")
    return tuple(
        measure for measure in measures if not options.scores or measure.score.name in options.scores
    )


def _unknown(words: str, given: str, known: list[str], at: str) -> OptionsError:
    near = get_close_matches(given, known, n=1)
    hint = NEAR.format(near=near[0]) if near else ""
    return OptionsError(words.format(given=given, hint=hint, known=", ".join(known)), field=at)


def _default_measures(options: UsageOptions) -> Iterator[Measure]:
    yield from _amounts(options)
    yield from _pods(options)
    yield from _fitting(options)
    if options.ratios:
        yield from _ratios()


def _amounts(options: UsageOptions) -> Iterator[Measure]:
    scales = options.scales
    for key in ("cpu", "mem"):
        if resource := options.resources.get(key):
            yield Measure(
                score=Score(
                    name=f"{key}Available",
                    scale=_scale(
                        options,
                        scales.available,
                        f"{key}Available",
                        key,
                        _LINEAR.get(resource, 100.0),
                        resource,
                    ),
                    unit=unit_of(resource),
                    meaning=f"Free {resource} on all nodes.",
                ),
                measure=_free(options, resource),
            )
    for key, resource in options.resources.items():
        linear = _LINEAR.get(resource, _LINEAR_DEVICES)
        for scope, spread, most, measure in (
            ("Node", scales.node, _NODE.get(resource, _NODE_OTHER), _largest(resource)),
            ("Cluster", scales.cluster, _CLUSTER.get(resource, _CLUSTER_OTHER), _free(options, resource)),
        ):
            name = f"{key}{scope}Available"
            where = "the node with the most" if scope == "Node" else "all nodes"
            yield Measure(
                score=Score(
                    name=name,
                    scale=_scale(
                        options, spread, name, key, most if spread == "logarithmic" else linear, resource
                    ),
                    unit=unit_of(resource),
                    meaning=f"Free {resource} on {where}.",
                ),
                measure=measure,
            )


def _pods(options: UsageOptions) -> Iterator[Measure]:
    yield Measure(
        score=Score(
            name=PODS_AVAILABLE,
            scale=_scale(options, options.scales.pods, PODS_AVAILABLE, PODS, _MOST_PODS, PODS),
            unit="pods",
            meaning="Number of pods that the nodes can still run.",
        ),
        measure=_free(options, PODS),
    )
    yield Measure(
        score=Score(
            name=PODS_PENDING,
            scale=Inverted(_scale(options, "logarithmic", PODS_PENDING, "", _MOST_PENDING, PODS)),
            unit="pods",
            meaning="Pending pods: 100 if there are none, less with each.",
        ),
        measure=lambda totals: float(totals.waiting),
    )


def _fitting(options: UsageOptions) -> Iterator[Measure]:
    for shape in options.shapes:
        name = SLOTS.format(shape=shape.name)
        yield Measure(
            score=Score(
                name=name,
                scale=_scale(options, options.scales.slots, name, "slots", _MOST_SLOTS, PODS),
                unit="pods",
                meaning=f"Number of pods of shape {shape.name} that fit on the nodes.",
            ),
            measure=_slots(shape.name),
        )


def _ratios() -> Iterator[Measure]:
    for name, resource in RATIOS.items():
        yield Measure(
            score=Score(
                name=name,
                scale=Linear(0, 100),
                unit="%",
                meaning=f"Free {resource} as a percentage of allocatable.",
            ),
            measure=_ratio(resource),
        )


def _ratio(resource: str) -> Measurement:
    def measure(totals: Totals) -> float | None:
        whole = totals.whole.get(resource, 0)
        return 100 * max(totals.free.get(resource, 0), 0) / whole if whole > 0 else 0.0

    return measure


def _upstream_measures(options: UsageOptions) -> Iterator[Measure]:
    for key, resource in RESOURCES.items():
        limit = _LINEAR.get(resource, _LINEAR_DEVICES)
        if resource == MEMORY and options.parity == "upstream":
            limit = _BUGGY_MEMORY
        for scope in ("Node", "Cluster"):
            yield Measure(
                score=Score(
                    name=f"{key}{scope}Available",
                    scale=Linear(0, limit, floor=LOWEST),
                    unit=unit_of(resource),
                    meaning=f"Free {resource}, as OCM's add-on computes it.",
                ),
                measure=_as_upstream(resource, of_node=scope == "Node"),
            )


def unit_of(resource: str) -> str:
    """Unit of raw values."""
    if resource == CPU:
        return "cores"
    return "GiB" if _in_bytes(resource) else "pods" if resource == PODS else ""


def in_units(resource: str, amount: float) -> float:
    """Convert from millicores, bytes or counts."""
    if resource == CPU:
        return amount / 1000
    return amount / GIB if _in_bytes(resource) else float(amount)


def _in_bytes(resource: str) -> bool:
    return resource in (MEMORY, _EPHEMERAL) or resource.startswith(HUGE_PAGES_PREFIX)


def _scale(options: UsageOptions, spread: Spread, name: str, key: str, most: float, resource: str) -> Scale:
    limit = options.limits.get(name, options.limits.get(key))
    if limit is not None:
        most = limit / GIB if _in_bytes(resource) else limit
    if spread != "logarithmic":
        return Linear(0, most, floor=options.floor)
    counted = resource != CPU and not _in_bytes(resource)
    least = min(_LEAST_COUNT, most / 2) if counted else most / _DECADES
    return Logarithmic(least, most, floor=options.floor)


def _free(options: UsageOptions, resource: str) -> Measurement:
    def measure(totals: Totals) -> float | None:
        if not _has_value(totals, resource):
            return None
        free = totals.free.get(resource, 0)
        if options.count_pending:
            waiting = totals.waiting if resource == PODS else totals.pending.get(resource, 0)
            free = max(free - waiting, 0)
        return in_units(resource, free)

    return measure


def _largest(resource: str) -> Measurement:
    def measure(totals: Totals) -> float | None:
        return in_units(resource, totals.largest.get(resource, 0)) if _has_value(totals, resource) else None

    return measure


def _slots(shape: str) -> Measurement:
    return lambda totals: float(totals.slots[shape])


def _as_upstream(resource: str, *, of_node: bool) -> Measurement:
    def measure(totals: Totals) -> float | None:
        if of_node:
            return in_units(resource, max(totals.largest.get(resource, 0), 0))
        return in_units(resource, totals.free.get(resource, 0))

    return measure


def _has_value(totals: Totals, resource: str) -> bool:
    """Whether to publish a value. CPU, memory and pods always count, devices only where they exist."""
    return resource in (CPU, MEMORY, PODS) or resource in totals.known
