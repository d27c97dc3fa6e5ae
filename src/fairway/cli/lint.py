"""`fairway lint`: find mistakes in placements and their surroundings, with position and remedy."""

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fairway.cli.client.objects import LINTED
from fairway.cli.commands.lint import SEVERITIES
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.files import sources
from fairway.cli.files.loader import LoadedObjects, Origin
from fairway.cli.input import Input, load_input
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.scheduling import load_scheduling
from fairway.cli.text import say
from fairway.hosts.instant import to_micros
from fairway.lint import RULES, Finding, Severity, identity_of
from fairway.lint import lint as apply
from fairway.lint.words import nearest
from kubewire.documents.parser import DocumentError
from kubewire.documents.positions import Place, Places, find, places_of
from kubewire.documents.reader import Document, json_documents

UNKNOWN_RULE: Final = "unknown rule {rule!r}; {remedy}"
SEE_RULES: Final = "list the rules with fairway lint --list-rules"
DID_YOU_MEAN: Final = "did you mean {meant}?"
NOTHING: Final = "No findings"
HIDDEN: Final = "{count} hidden (show all with --severity info)"
_PLURALS: Final = {"error": "errors", "warning": "warnings", "info": "infos"}


def lint(
    files: tuple[str, ...],
    max_file_size: int,
    verbose: bool,
    with_hub: bool,
    hub: HubChoice,
    now: datetime | None,
    severity: str,
    rules: tuple[str, ...],
    strict: bool,
    list_rules: bool,
    scheduler_config: Path | None,
    output: OutputFormat,
) -> int:
    if list_rules:
        _list_rules(output)
        return EXIT_OK
    _check_rules(rules)
    profile = load_scheduling(scheduler_config).profile
    given = load_input(
        files,
        max_file_size=max_file_size,
        verbose=verbose,
        with_hub=with_hub,
        hub=hub,
        resources=LINTED,
    )
    micros = to_micros(now or datetime.now(UTC))
    objects = (loaded.object for loaded in given.objects)
    findings = _requested(apply(objects, now=micros, only=rules, profile=profile), given)
    least = Severity(severity)
    shown = _with_positions(
        [finding for finding in findings if finding.severity.reaches(least)], given.objects, max_file_size
    )
    counts = Counter(finding.severity.value for finding in findings)
    if output == "table":
        _print(shown, counts, hidden=len(findings) - len(shown))
    else:
        emit([], columns={}, output=output, document=_document(shown, counts))
    failing = Severity.WARNING if strict else Severity.ERROR
    return EXIT_NO if any(finding.severity.reaches(failing) for finding in findings) else EXIT_OK


def _requested(findings: Sequence[Finding], given: Input) -> Sequence[Finding]:
    """With files and a hub, keep only findings about the files."""
    if given.files is None or not given.server:
        return findings
    theirs = {identity_of(file.object) for file in given.files}
    return [finding for finding in findings if finding.identity in theirs]


def _list_rules(output: OutputFormat) -> None:
    rows = [
        {"rule": rule.id, "severity": rule.severity.value, "finds": rule.summary} for rule in RULES.values()
    ]
    emit(rows, columns={"rule": "Rule", "severity": "Severity", "finds": "Finds"}, output=output)


def _check_rules(rules: Iterable[str]) -> None:
    for rule in rules:
        if rule not in RULES:
            near = nearest(rule, RULES.keys())
            remedy = SEE_RULES if near is None else f"{DID_YOU_MEAN.format(meant=near)} {SEE_RULES}"
            raise BadInputError(UNKNOWN_RULE.format(rule=rule, remedy=remedy))


def _print(shown: Sequence[Finding], counts: Mapping[str, int], *, hidden: int) -> None:
    for finding in shown:
        path = f"{finding.path}: " if finding.path else ""
        place = f"{finding.place}: " if finding.place else ""
        say(f"{place}{finding.severity}: {finding.subject}: {path}{finding.message} [{finding.rule}]")
        say(f"    remedy: {finding.remedy}")
    summary = ", ".join(_count(counts.get(name, 0), name) for name in SEVERITIES if counts.get(name))
    more = HIDDEN.format(count=hidden) if hidden else ""
    say("; ".join(part for part in (summary or NOTHING, more) if part))


def _count(number: int, severity: str) -> str:
    return f"{number} {severity if number == 1 else _PLURALS[severity]}"


def _document(shown: Sequence[Finding], counts: Mapping[str, int]) -> dict[str, object]:
    return {
        "findings": [
            {
                "rule": finding.rule,
                "severity": finding.severity.value,
                "kind": finding.kind,
                "namespace": finding.namespace,
                "name": finding.name,
                "path": finding.path,
                "message": finding.message,
                "remedy": finding.remedy,
                "file": finding.file,
                "line": finding.line,
            }
            for finding in shown
        ],
        "counts": {name: counts.get(name, 0) for name in SEVERITIES},
    }


def _with_positions(findings: Iterable[Finding], loaded: LoadedObjects, max_file_size: int) -> list[Finding]:
    """Add positions and sort by file and line; objects of the hub by name."""
    origins = {identity_of(thing.object): thing.origin for thing in loaded}
    lines: dict[str, _Lines] = {}
    positioned: list[Finding] = []
    for finding in findings:
        origin = origins[finding.identity]
        if not origin.line:
            positioned.append(finding)  # objects of a hub have no position
            continue
        in_file = lines.get(origin.file)
        if in_file is None:
            starts = [other.origin.line for other in loaded if other.origin.file == origin.file]
            in_file = lines[origin.file] = _Lines(origin.file, starts, max_file_size)
        positioned.append(replace(finding, file=origin.file, line=in_file.of(origin, finding.path)))
    return sorted(positioned, key=_order)


def _order(finding: Finding) -> tuple[object, ...]:
    where = (finding.file, finding.line) if finding.line else (finding.kind, finding.namespace, finding.name)
    return (*where, finding.severity.rank, finding.rule, finding.path)


class _Lines:
    """Lines of fields in one file, which is read again. If that fails, the line of the object is used."""

    def __init__(self, file: str, starts: list[int], max_file_size: int) -> None:
        self._starts = sorted(set(starts))
        self._data = b""
        self._places: dict[int, Places] = {}
        # Standard input and pipes cannot be read again.
        if os.path.isfile(file):
            try:
                self._data = sources.read(file, max_bytes=max_file_size).data
            except sources.SourceError:
                self._data = b""
        self._text = self._data.splitlines(keepends=True)
        self._json = self._json_documents(file) if self._data else {}

    def of(self, origin: Origin, path: str) -> int:
        places = self._places.get(origin.document if self._json else origin.line)
        if places is None:
            places = self._read(origin)
            self._places[origin.document if self._json else origin.line] = places
        return find(places, path, default=Place(origin.line)).line

    def _json_documents(self, file: str) -> dict[int, Document]:
        named = file.lower().removesuffix(".gz").endswith((".json", ".jsonl"))
        if not named and self._data.lstrip()[:1] not in (b"{", b"["):
            return {}
        try:
            return {document.number: document for document in json_documents(self._data)}
        except DocumentError:
            return {}

    def _read(self, origin: Origin) -> Places:
        if self._json:
            document = self._json.get(origin.document)
            return {} if document is None else places_of(self._data, document)
        # Read up to the start of the next object; an item of a list is then a list by itself.
        after = bisect_right(self._starts, origin.line)
        end = self._starts[after] - 1 if after < len(self._starts) else len(self._text)
        text = b"".join(self._text[origin.line - 1 : end])
        places = places_of(text, Document(value=None, number=origin.document, line=1))
        shifted = {path: Place(place.line + origin.line - 1) for path, place in places.items()}
        # The item starts with a dash, so its fields are below index 0.
        return {path[1:] if path[0] == 0 else path: place for path, place in shifted.items() if path != (0,)}
