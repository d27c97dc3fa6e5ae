"""`fairway lint`: find mistakes in placements and their surroundings, with position and remedy."""

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fairway.cli.client.session import HubChoice
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.options.input import Input, input_options, load_input, moment
from fairway.cli.options.scheduler import load_scheduling, scheduler_option
from fairway.cli.output import OutputFormat, emit, output_option, say

if TYPE_CHECKING:
    from fairway.cli.files.loader import LoadedObjects, Origin
    from fairway.documents.positions import Places
    from fairway.documents.reader import Document
    from fairway.whatif.lint import Finding

UNKNOWN_RULE: Final = "unknown rule {rule!r}; {remedy}"
SEE_RULES: Final = "list the rules with fairway lint --list-rules"
DID_YOU_MEAN: Final = "did you mean {meant}?"
NOTHING: Final = "No findings"
HIDDEN: Final = "{count} hidden (show all with --severity info)"

_SEVERITIES: Final = ("error", "warning", "info")
_PLURALS: Final = {"error": "errors", "warning": "warnings", "info": "infos"}


@click.command(
    short_help="Find mistakes in placements.",
    epilog="""\b
Examples:
  fairway lint -f examples/fleet
  fairway lint -f fleet/ --severity info
  fairway lint -f fleet/ --rule score-expired --rule score-used-expired --now 2026-01-02T10:00:00Z
  fairway lint -f fleet/ --strict -o json
  fairway lint
  fairway lint -f new-placement.yaml --hub

\b
Include the clusters, sets, bindings and scores of the hub: most mistakes are visible only with them.
Without -f, all objects of the hub are checked; with -f and --hub, the files as they would be on the hub.
Exit status: 0 no errors, 1 errors (with --strict, also warnings), 2 bad input.
""",
)
@click.option("--now", type=moment, metavar="TIME", help="Check scores at this time.  [default: now]")
@click.option(
    "--severity",
    type=click.Choice(_SEVERITIES),
    default="warning",
    show_default=True,
    help="Minimum severity to show.",
)
@click.option("--rule", "rules", multiple=True, metavar="ID", help="Apply only this rule. Can be repeated.")
@click.option("--strict", is_flag=True, help="Fail on warnings.")
@click.option("--list-rules", is_flag=True, help="List all rules and exit.")
@scheduler_option
@output_option
@input_options
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
    """Find mistakes in placements and in the sets, scores and clusters around them."""
    from fairway.fleet.instant import to_micros
    from fairway.whatif.lint import Severity
    from fairway.whatif.lint import lint as apply

    if list_rules:
        _list_rules(output)
        return EXIT_OK
    _check_rules(rules)
    profile = load_scheduling(scheduler_config).placement
    given = load_input(files, max_file_size=max_file_size, verbose=verbose, with_hub=with_hub, hub=hub)
    micros = to_micros(now or datetime.now(UTC))
    objects = (each.object for each in given.objects)
    found = _requested(apply(objects, now=micros, only=rules, profile=profile), given)
    least = Severity(severity)
    shown = _with_positions(
        [each for each in found if each.severity.reaches(least)], given.objects, max_file_size
    )
    counts = Counter(each.severity.value for each in found)
    if output == "table":
        _print(shown, counts, hidden=len(found) - len(shown))
    else:
        emit([], columns={}, output=output, document=_document(shown, counts))
    failing = Severity.WARNING if strict else Severity.ERROR
    return EXIT_NO if any(each.severity.reaches(failing) for each in found) else EXIT_OK


def _requested(found: Sequence["Finding"], given: Input) -> Sequence["Finding"]:
    """With files and a hub, keep only findings about the files."""
    if given.files is None or not given.server:
        return found
    from fairway.whatif.lint import identity_of

    theirs = {identity_of(each.object) for each in given.files}
    return [each for each in found if each.identity in theirs]


def _list_rules(output: OutputFormat) -> None:
    from fairway.whatif.lint import RULES

    rows = [
        {"rule": each.id, "severity": each.severity.value, "finds": each.summary} for each in RULES.values()
    ]
    emit(rows, columns={"rule": "Rule", "severity": "Severity", "finds": "Finds"}, output=output)


def _check_rules(rules: Iterable[str]) -> None:
    from fairway.whatif.lint import RULES
    from fairway.whatif.lint.words import meant

    for rule in rules:
        if rule not in RULES:
            near = meant(rule, RULES.keys())
            remedy = SEE_RULES if near is None else f"{DID_YOU_MEAN.format(meant=near)} {SEE_RULES}"
            raise BadInputError(UNKNOWN_RULE.format(rule=rule, remedy=remedy))


def _print(shown: Sequence["Finding"], counts: Mapping[str, int], *, hidden: int) -> None:
    for each in shown:
        path = f"{each.path}: " if each.path else ""
        place = f"{each.place}: " if each.place else ""
        say(f"{place}{each.severity}: {each.subject}: {path}{each.message} [{each.rule}]")
        say(f"    remedy: {each.remedy}")
    summary = ", ".join(_count(counts.get(name, 0), name) for name in _SEVERITIES if counts.get(name))
    more = HIDDEN.format(count=hidden) if hidden else ""
    say("; ".join(part for part in (summary or NOTHING, more) if part))


def _count(number: int, severity: str) -> str:
    return f"{number} {severity if number == 1 else _PLURALS[severity]}"


def _document(shown: Sequence["Finding"], counts: Mapping[str, int]) -> dict[str, object]:
    return {
        "findings": [
            {
                "rule": each.rule,
                "severity": each.severity.value,
                "kind": each.kind,
                "namespace": each.namespace,
                "name": each.name,
                "path": each.path,
                "message": each.message,
                "remedy": each.remedy,
                "file": each.file,
                "line": each.line,
            }
            for each in shown
        ],
        "counts": {name: counts.get(name, 0) for name in _SEVERITIES},
    }


def _with_positions(
    found: Iterable["Finding"], loaded: "LoadedObjects", max_file_size: int
) -> list["Finding"]:
    """Add positions and sort by file and line; objects of the hub by name."""
    from fairway.whatif.lint import identity_of

    origins = {identity_of(each.object): each.origin for each in loaded}
    lines: dict[str, _Lines] = {}
    positioned: list[Finding] = []
    for each in found:
        origin = origins[each.identity]
        if not origin.line:
            positioned.append(each)  # objects of a hub have no position
            continue
        in_file = lines.get(origin.file)
        if in_file is None:
            starts = [other.origin.line for other in loaded if other.origin.file == origin.file]
            in_file = lines[origin.file] = _Lines(origin.file, starts, max_file_size)
        positioned.append(replace(each, file=origin.file, line=in_file.of(origin, each.path)))
    return sorted(positioned, key=_order)


def _order(found: "Finding") -> tuple[object, ...]:
    where = (found.file, found.line) if found.line else (found.kind, found.namespace, found.name)
    return (*where, found.severity.rank, found.rule, found.path)


class _Lines:
    """Lines of fields in one file, which is read again. If that fails, the line of the object is used."""

    def __init__(self, file: str, starts: list[int], max_file_size: int) -> None:
        from fairway.cli.files import sources

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

    def of(self, origin: "Origin", path: str) -> int:
        from fairway.documents.positions import Place, find

        places = self._places.get(origin.document if self._json else origin.line)
        if places is None:
            places = self._read(origin)
            self._places[origin.document if self._json else origin.line] = places
        return find(places, path, default=Place(origin.line)).line

    def _json_documents(self, file: str) -> "dict[int, Document]":
        from fairway.documents.parser import DocumentError
        from fairway.documents.reader import json_documents

        named = file.lower().removesuffix(".gz").endswith((".json", ".jsonl"))
        if not named and self._data.lstrip()[:1] not in (b"{", b"["):
            return {}
        try:
            return {each.number: each for each in json_documents(self._data)}
        except DocumentError:
            return {}

    def _read(self, origin: "Origin") -> "Places":
        from fairway.documents.positions import Place, places_of
        from fairway.documents.reader import Document

        if self._json:
            document = self._json.get(origin.document)
            return {} if document is None else places_of(self._data, document)
        # Read up to the start of the next object; an item of a list is then a list by itself.
        after = bisect_right(self._starts, origin.line)
        end = self._starts[after] - 1 if after < len(self._starts) else len(self._text)
        text = b"".join(self._text[origin.line - 1 : end])
        places = places_of(text, Document(value=None, number=origin.document, line=1))
        shifted = {path: Place(each.line + origin.line - 1) for path, each in places.items()}
        # The item starts with a dash, so its fields are below index 0.
        return {path[1:] if path[0] == 0 else path: place for path, place in shifted.items() if path != (0,)}
