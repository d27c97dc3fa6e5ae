"""Many node selectors of which one must match, such as those of the volumes that a claim may bind.

There may be a local volume or a capacity for each node. Such a selector names one value of a label: the values are
looked up together, instead of one bitmap for each selector.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.column import Key
from fairway.hosts.nodes.cells import label
from fairway.hosts.nodes.node_selection import RequiredNodes
from fairway.hosts.snapshot import Snapshot
from kubewire.api.selector import IN


class SelectorIndex:
    """``selectors`` by position; None selects every node."""

    def __init__(self, selectors: Sequence[RequiredNodes | None]) -> None:
        self._anywhere: list[int] = []
        self._by_value: dict[str, dict[str, list[int]]] = {}
        """Positions of the selectors that require one of some values of a label, by label and value."""
        self._others: list[tuple[int, RequiredNodes]] = []
        for at, selector in enumerate(selectors):
            if selector is None:
                self._anywhere.append(at)
            elif (named := _label_of(selector)) is not None:
                key, values = named
                positions = self._by_value.setdefault(key, {})
                for value in values:
                    positions.setdefault(value, []).append(at)
            else:
                self._others.append((at, selector))

    def matching(self, name: str, labels: Mapping[str, str]) -> list[int]:
        """Return the positions of the selectors that match a node, ascending."""
        places = self._anywhere
        for key, positions in self._by_value.items():
            if key in labels and (more := positions.get(labels[key])) is not None:
                places = [*places, *more]
        if self._others:
            places = [*places, *(at for at, selector in self._others if selector.matches(name, labels))]
        return sorted(places)

    def select(self, snapshot: Snapshot[Any], among: Bits) -> Bits:
        """Return the nodes that one of the selectors matches."""
        if self._anywhere:
            return among
        selected = snapshot.none()
        for key, positions in self._by_value.items():
            column = snapshot.codes(label(key))
            codes = [code for value in positions if (code := column.code(value)) is not None]
            if codes:
                selected |= among & column.bitmap_of(codes)
        for _, selector in self._others:
            selected |= selector.select(snapshot, among)
        return selected

    def counts(self, snapshot: Snapshot[Any]) -> npt.NDArray[np.int64]:
        """Return how many of the selectors match each node."""
        counts = np.full(snapshot.capacity, len(self._anywhere), dtype=np.int64)
        for key, positions in self._by_value.items():
            column = snapshot.codes(label(key))
            of_code = np.zeros(len(column.values), dtype=np.int64)
            for value, matching in positions.items():
                if (code := column.code(value)) is not None:
                    of_code[code] = len(matching)
            counts += of_code[column.codes]
        for _, selector in self._others:
            counts += bitmap.unpack(selector.select(snapshot, snapshot.live))
        return counts

    def columns(self) -> set[Key]:
        keys = set(map(label, self._by_value))
        for _, selector in self._others:
            keys |= selector.columns()
        return keys


def _label_of(selector: RequiredNodes) -> tuple[str, frozenset[str]] | None:
    """Return the label and its values if they are all that the selector requires."""
    if selector.selector or selector.terms is None or len(selector.terms) != 1:
        return None
    term = selector.terms[0]
    if term.named or term.not_named or len(term.requirements) != 1 or term.requirements[0].operator != IN:
        return None
    return term.requirements[0].key, term.requirements[0].values
