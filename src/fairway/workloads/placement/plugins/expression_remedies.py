"""Remedies for CEL expressions: the labels, claims and scores they name, and the literals they compare them with.

These are only candidates; the real cycle decides whether they help.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from fairway.engine.remedies import Remedy, SetCell, SetNumber
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.snapshot import ClusterSnapshot
from fairway.hosts.column import Key
from fairway.hosts.instant import Micros
from fairway.hosts.snapshot import Snapshot
from fairway.workloads.placement.plugins.calculator import HIGHEST, LOWEST
from fairway.workloads.placement.plugins.expressions import Expressions
from fairway.workloads.placement.plugins.selector_remedies import COMMON_VALUES, PLAIN_VALUE, common_values

MOST_REMEDIES: Final = 24

_TEXT: Final = r"""(?:"([^"\\]*)"|'([^'\\]*)')"""
_LITERAL: Final = re.compile(_TEXT)
_NUMBER: Final = re.compile(r"(?<![\w.\"'])-?\d+(?![\w.\"'])")
_LABEL: Final = re.compile(rf"\.labels\s*(?:\[\s*{_TEXT}\s*\]|\.([A-Za-z_]\w*)(?!\w*\s*\())")
_LABEL_KEY: Final = re.compile(rf"{_TEXT}\s+in\s+managedCluster\.metadata\.labels(?!\s*[\[.])")
_ANY_LABEL: Final = re.compile(r"\.labels\s*\.(?:exists|exists_one|all)\s*\(")
_NAME: Final = re.compile(rf"\.name\s*==\s*{_TEXT}")
_SCORES: Final = re.compile(rf"\.scores\s*\(\s*{_TEXT}\s*\)")


def satisfy_expressions(
    snapshot: ClusterSnapshot, texts: Iterable[str], row: int, *, now: Micros | None
) -> Iterator[Remedy]:
    """Yield changes for the first expression that is false. With ``now``, expired scores are hidden."""
    for text in texts:
        if not Expressions((text,)).matches(snapshot, row, now=now):
            hides_silent = now is not None
            yield from islice(_remedies(text, snapshot, row, hides_silent=hides_silent), MOST_REMEDIES)
            return


def _remedies(text: str, snapshot: ClusterSnapshot, row: int, *, hides_silent: bool) -> Iterator[Remedy]:
    """Literals come first."""
    source = snapshot.cluster(row)
    literals = list(dict.fromkeys(_pick(match) for match in _LITERAL.finditer(text)))
    numbers = [int(match[0]) for match in _NUMBER.finditer(text)]
    near = list(dict.fromkeys(number + step for number in numbers for step in (0, 1, -1)))
    names = list(dict.fromkeys(_pick(match) for match in _NAME.finditer(text)))
    if "clusterClaims" in text:
        claims = cells.claims_of(source)
        for key in names:
            given = [*(literal for literal in literals if literal != key), *map(str, near)]
            yield from _texts(snapshot, cells.claim(key), given, held=claims.get(key))
    keys = [_pick(match) for match in _LABEL.finditer(text)]
    keys += [_pick(match) for match in _LABEL_KEY.finditer(text)]
    if _ANY_LABEL.search(text):
        keys += literals
    labels = source.metadata.labels
    for key in dict.fromkeys(keys):
        given = [*(literal for literal in literals if literal != key), *map(str, near)]
        yield from _texts(snapshot, cells.label(key), given, held=labels.get(key))
    for resource in dict.fromkeys(_pick(match) for match in _SCORES.finditer(text)):
        for name in names:
            for number in near:
                if LOWEST <= number <= HIGHEST:
                    column = (cells.SCORE, resource, name)
                    yield SetNumber(column, number, silent_is_missing=hides_silent)


def _pick(match: re.Match[str]) -> str:
    return next((group for group in match.groups() if group is not None), "")


def _texts(snapshot: Snapshot[Any], column: Key, given: list[str], *, held: str | None) -> Iterator[SetCell]:
    """Yield values that the expression mentions, then those of other clusters, then a default, then the removal."""
    values = [*given[:COMMON_VALUES], *common_values(snapshot, column), PLAIN_VALUE]
    for value in dict.fromkeys(values):
        if value != held:
            yield SetCell(column, value)
    if held is not None:
        yield SetCell(column, None)
