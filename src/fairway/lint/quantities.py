"""CPU, memory and other resources that clusters report."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from fairway.api.placement import BUILT_IN
from fairway.hosts import bitmap
from fairway.hosts.clusters import cells
from fairway.lint.finding import Finding, warning
from fairway.lint.scene import Scene
from fairway.lint.words import some
from fairway.workloads.placement.plugins.allocatable import RESOURCES
from kubewire.api.quantity import Quantity, QuantityError, quantity_float

EXCEEDS: Final = warning(
    "allocatable-exceeds-capacity", "The allocatable amount of a resource exceeds its capacity."
)
UNREPORTED: Final = warning(
    "resource-unreported", "Candidates do not report the resource the placement ranks by, and count 0."
)

RULES: Final = (EXCEEDS, UNREPORTED)


def check(scene: Scene) -> Iterator[Finding]:
    for cluster in scene.clusters:
        capacity = cluster.status.capacity
        for resource, allocatable in cluster.status.allocatable.items():
            whole = capacity.get(resource)
            if whole is not None and allocatable != whole and _exceeds(allocatable, whole):
                yield EXCEEDS.at(
                    cluster,
                    f"status.allocatable[{resource}]",
                    f"{allocatable} of {resource} allocatable, but the capacity is {whole}",
                    "check what the cluster's agent reports",
                )
    if scene.populated:
        yield from _unreported(scene)


def _exceeds(allocatable: str | int | float, capacity: str | int | float) -> bool:
    try:
        # Compare doubles first: they are cached, and usually sufficient.
        if quantity_float(allocatable) <= quantity_float(capacity):
            return False
        return Quantity.parse(allocatable) > Quantity.parse(capacity)
    except QuantityError:
        return False


def _unreported(scene: Scene) -> Iterator[Finding]:
    for placement in scene.placements:
        policy = placement.spec.prioritizerPolicy
        for at, configuration in enumerate(() if policy is None else policy.configurations):
            coordinate = configuration.scoreCoordinate
            if coordinate is None or not configuration.weight or coordinate.type != BUILT_IN:
                continue
            resource = RESOURCES.get(coordinate.builtIn)
            if resource is None:
                continue
            rows = bitmap.rows_of(scene.pool(placement).candidates)
            unknown = np.isnan(scene.snapshot.numbers((cells.ALLOCATABLE, resource)).values[rows])
            unknown |= np.isnan(scene.snapshot.numbers((cells.CAPACITY, resource)).values[rows])
            if unknown.any():
                names = sorted(scene.snapshot.hosts.names[row] for row in rows[unknown].tolist())
                yield UNREPORTED.at(
                    placement,
                    f"spec.prioritizerPolicy.configurations[{at}].scoreCoordinate.builtIn",
                    f"{len(names)} of {len(rows)} candidates ({some(names)}) do not report {resource} both as "
                    f"capacity and as allocatable, so {coordinate.builtIn} ignores them and they count 0",
                    "check that their agents report it, or exclude them with a predicate",
                )
