"""Edits suggested by a CEL expression: the labels, claims and scores it names, and the literals it compares them with.

These are only candidates; the real cycle decides whether they help.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from fairway.clusters import cells
from fairway.clusters.snapshot import ClusterSnapshot
from fairway.fleet.instant import Micros
from fairway.fleet.snapshot import Snapshot
from fairway.whatif.edits import Edit, SetClaim, SetLabel
from fairway.whatif.number_edits import HIGHEST_SCORE, LOWEST_SCORE, score_edit
from fairway.whatif.world import World

_TEXT: Final = r"""(?:"([^"\\]*)"|'([^'\\]*)')"""
_LITERAL: Final = re.compile(_TEXT)
_NUMBER: Final = re.compile(r"(?<![\w.\"'])-?\d+(?![\w.\"'])")
_LABEL: Final = re.compile(rf"\.labels\s*(?:\[\s*{_TEXT}\s*\]|\.([A-Za-z_]\w*)(?!\w*\s*\())")
_LABEL_KEY: Final = re.compile(rf"{_TEXT}\s+in\s+managedCluster\.metadata\.labels(?!\s*[\[.])")
_ANY_LABEL: Final = re.compile(r"\.labels\s*\.(?:exists|exists_one|all)\s*\(")
_NAME: Final = re.compile(rf"\.name\s*==\s*{_TEXT}")
_SCORES: Final = re.compile(rf"\.scores\s*\(\s*{_TEXT}\s*\)")
_VALUES: Final = 6
PLAIN_VALUE: Final = "true"
"""The value of a label or claim if any value is sufficient and no cluster has one."""


def candidate_edits(
    text: str, snapshot: ClusterSnapshot, world: World, cluster: str, *, now: Micros, wary: bool = False
) -> Iterator[Edit]:
    """Yield the edits of one expression; literals first. ``wary`` is whether silent scores are hidden."""
    source = snapshot.cluster(snapshot.hosts.row_of[cluster])
    literals = list(dict.fromkeys(_pick(match) for match in _LITERAL.finditer(text)))
    numbers = [int(match[0]) for match in _NUMBER.finditer(text)]
    near = list(dict.fromkeys(number + step for number in numbers for step in (0, 1, -1)))
    names = list(dict.fromkeys(_pick(match) for match in _NAME.finditer(text)))
    if "clusterClaims" in text:
        held = cells.claims_of(source)
        for key in names:
            others = [each for each in literals if each != key]
            for value in _values(snapshot, cells.claim(key), [*others, *map(str, near)]):
                if held.get(key) != value:
                    yield SetClaim(cluster=cluster, key=key, value=value, old=held.get(key))
            if key in held:
                yield SetClaim(cluster=cluster, key=key, value=None, old=held[key])
    keys = [_pick(match) for match in _LABEL.finditer(text)]
    keys += [_pick(match) for match in _LABEL_KEY.finditer(text)]
    if _ANY_LABEL.search(text):
        keys += literals
    labels = source.metadata.labels
    for key in dict.fromkeys(keys):
        others = [each for each in literals if each != key]
        for value in _values(snapshot, cells.label(key), [*others, *map(str, near)]):
            if labels.get(key) != value:
                yield SetLabel(cluster=cluster, key=key, value=value, old=labels.get(key))
        if key in labels:
            yield SetLabel(cluster=cluster, key=key, value=None, old=labels[key])
    for resource in dict.fromkeys(_pick(match) for match in _SCORES.finditer(text)):
        for name in names:
            for number in near:
                if LOWEST_SCORE <= number <= HIGHEST_SCORE:
                    edit, _ = score_edit(
                        world, cluster, resource, name, up=True, now=now, weighed=(), wary=wary
                    )
                    if number != edit.base or edit.missing or edit.ran_out or edit.silenced:
                        yield replace(edit, value=number)


def _pick(match: re.Match[str]) -> str:
    return next((group for group in match.groups() if group is not None), "")


def _values(snapshot: Snapshot[Any], column: tuple[str, ...], given: list[str]) -> list[str]:
    """Yield values that the expression mentions, then those of other clusters, then a default."""
    return list(dict.fromkeys([*given[:_VALUES], *common_values(snapshot, column), PLAIN_VALUE]))


def common_values(snapshot: Snapshot[Any], column: tuple[str, ...], most: int = _VALUES) -> list[str]:
    """Return the most common values of a label or claim."""
    codes = snapshot.codes(column)
    values = sorted((-codes.uses(code), str(value)) for value, code in codes.items())
    return [value for _, value in values[:most]]
