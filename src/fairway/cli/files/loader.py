"""`-f`: load typed objects from files, directories and standard input, and report all problems at once.

Objects are validated strictly and defaulted as the API server does. Each object keeps its file, document and line, so
that later findings can name their place.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fairway.api.crd import RESOURCES
from fairway.api.kinds import KINDS, DecodeError, KubeObject, decode, type_of
from fairway.api.validation import NO_TIME, check
from fairway.cli.errors import InputProblemsError, Problem
from fairway.cli.files import sources
from fairway.cli.files.expressions import broken_expressions
from fairway.cli.files.kinds import Finding, classify, describe
from fairway.cli.progress import Advance, progress
from fairway.cli.text import cell, say
from kubehub.schemas.formats import text_format
from kubewire.api.defaults import apply_defaults
from kubewire.api.meta import reason_of, unreadable_fields
from kubewire.documents.parser import DocumentError
from kubewire.documents.positions import Place, Places, find, parse_path, places_of
from kubewire.documents.reader import Document, json_documents, value_of, yaml_documents

MALFORMED: Final = "cannot parse as {notation}: {reason}"
NO_OBJECTS: Final = "contains no object of a kind that Fairway uses"
NO_OBJECTS_REMEDY: Final = "name files with ManagedClusters, ManagedClusterSets, scores or Placements"
ITEMS_NOT_LIST: Final = "is {got}, must be a list of objects"
ITEMS_REMEDY: Final = "write each object as an entry that starts with a dash"
NO_NAME: Final = "has no metadata.name"
NO_NAME_REMEDY: Final = "give the object a name"
NAME_NOT_TEXT: Final = "must be text"
BAD_NAME: Final = "{name!r} is not a valid object name"
BAD_NAME_REMEDY: Final = (
    "use at most 253 lower-case letters, digits, '-' and '.'; every part must start and end with a "
    "letter or digit"
)
BAD_NAMESPACE: Final = "{name!r} is not a valid namespace name"
BAD_NAMESPACE_REMEDY: Final = (
    "use at most 63 lower-case letters, digits and '-', starting and ending with a letter or digit"
)
DUPLICATE: Final = "is defined twice, first at {first}"
DUPLICATE_REMEDY: Final = "remove one of the two"
NO_CLUSTER: Final = "has no metadata.namespace"
NO_CLUSTER_REMEDY: Final = "set it to the name of the score's cluster"
QUOTE_REMEDY: Final = 'YAML reads the unquoted {plain} as {kind}; write "{plain}" in quotes if it is text'

UNREADABLE: Final = "fairway: {place}: {subject}: cannot decode, ignored: {fields}"
MORE_UNREADABLE: Final = "fairway: {count:,} more objects with fields that cannot be decoded"
_WARNINGS: Final = 5

_PART: Final = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_PART}(?:\.{_PART})*")
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LONGEST_NAME: Final = 253
_TEXT_WANTED: Final = "must be text"  # the end of the message for a field that is not text
_DEFAULT_NAMESPACE: Final = "default"
_PROGRESS_FROM: Final = 4 * 1024 * 1024
_PROGRESS_FROM_FILES: Final = 100
_CLUSTER_SCOPED: Final = frozenset(resource.kind for resource in RESOURCES if not resource.namespaced)
_IN_CLUSTER_NAMESPACE: Final = frozenset({"AddOnPlacementScore", "ManagedClusterScore"})

_VERSIONS: Final = {kind: tuple(v for v, k in KINDS if k == kind) for _, kind in KINDS}

_Object = TypeVar("_Object")


@dataclass(frozen=True, slots=True)
class Origin:
    """The place of an object in a file; `document` and `line` count from 1."""

    file: str
    document: int
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class LoadedObject:
    object: KubeObject
    origin: Origin


@dataclass(frozen=True, slots=True)
class LoadedObjects:
    """The loaded objects, in the order of the files, and the number of ignored objects by kind."""

    objects: tuple[LoadedObject, ...]
    ignored: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.objects)

    def __iter__(self) -> Iterator[LoadedObject]:
        return iter(self.objects)

    def of(self, kind: type[_Object]) -> list[_Object]:
        """Return all objects of one type."""
        return [loaded.object for loaded in self.objects if isinstance(loaded.object, kind)]


def load(
    paths: Sequence[str], *, max_file_size: int = sources.DEFAULT_MAX_BYTES, expressions: bool = False
) -> LoadedObjects:
    """Load and validate the files that `paths` name. Raises InputProblemsError with all problems.

    With `expressions`, CEL that does not compile is a problem, too; a hub accepts it and selects nothing.
    """
    loading = _Loading(expressions=expressions)
    files = sources.find_files(paths, problems=loading.problems)
    total = sum(_size(file) for file in files)
    is_long = total > _PROGRESS_FROM or len(files) > _PROGRESS_FROM_FILES
    with progress("loading", total=total, wanted=is_long) as advance:
        for file in files:
            loading.file(file, max_file_size=max_file_size, advance=advance)
    if not loading.problems and not loading.objects:
        places = ", ".join(sources.STDIN_NAME if path == sources.STDIN else path for path in paths)
        loading.problems.append(Problem(file=places, message=NO_OBJECTS, remedy=NO_OBJECTS_REMEDY))
    if loading.problems:
        raise InputProblemsError(loading.problems)
    for line in loading.unreadable[:_WARNINGS]:
        say(line, stream=sys.stderr)
    if len(loading.unreadable) > _WARNINGS:
        say(MORE_UNREADABLE.format(count=len(loading.unreadable) - _WARNINGS), stream=sys.stderr)
    return LoadedObjects(objects=tuple(loading.objects), ignored=dict(loading.ignored))


class _Loading:
    """The objects and problems found so far."""

    def __init__(self, *, expressions: bool) -> None:
        self._expressions = expressions
        self.objects: list[LoadedObject] = []
        self.ignored: Counter[str] = Counter()
        self.problems: list[Problem] = []
        self.unreadable: list[str] = []
        self._seen: dict[tuple[str, str, str], Origin] = {}

    def file(self, path: str, *, max_file_size: int, advance: Advance) -> None:
        size = _size(path)
        try:
            source = sources.read(path, max_bytes=max_file_size)
        except sources.SourceError as error:
            self.problems.append(error.problem)
            advance(size)
            return
        shown = 0
        try:
            for document in documents_in(source):
                self.document(_Page(source, document))
                if document.offset - shown > _PROGRESS_FROM:
                    advance(document.offset - shown)
                    shown = document.offset
        except DocumentError as error:
            self.problems.append(malformed(source, error))
        advance(max(0, size - shown))

    def document(self, page: "_Page") -> None:
        value = value_of(page.document)
        if isinstance(value, dict) and str(value.get("kind", "")).endswith("List") and "items" in value:
            items, prefix = value["items"], "items"
        elif isinstance(value, list):
            items, prefix = value, ""
        else:
            self.object(page, value, prefix="", line=page.document.line)
            return
        if not isinstance(items, list | None):
            message = ITEMS_NOT_LIST.format(got=describe(items))
            self.problems.append(page.problem(value, "", "items", message, ITEMS_REMEDY))
            return
        lines = page.document.item_lines
        for index, item in enumerate(items or ()):
            line = lines[index] if index < len(lines) else page.document.line
            self.object(page, item, prefix=f"{prefix}[{index}]", line=line)

    def object(self, page: "_Page", value: Any, *, prefix: str, line: int) -> None:
        def report(path: str, message: str, remedy: str) -> None:
            self.problems.append(page.problem(value, prefix, path, message, remedy))

        verdict = classify(value, _VERSIONS)
        if verdict is False:
            self.ignored[value["kind"]] += 1
            return
        if isinstance(verdict, Finding):
            report(verdict.path, verdict.message, verdict.remedy)
            return
        unnamed = _complete_identity(value)
        if unnamed:
            report(unnamed.path, unnamed.message, unnamed.remedy)
            return
        kind = type_of(value)
        findings = check(value, kind=kind)
        # A hub serves values that cannot be decoded; such files are explained as the hub would be.
        partly = bool(findings) and all(
            _is_served(value, finding.path, finding.message) for finding in findings
        )
        if partly:
            findings = ()
        if self._expressions and not findings and value["kind"] == "Placement":
            findings = broken_expressions(value)
        for finding in findings:
            report(finding.path, finding.message, finding.remedy)
        if findings:
            return
        try:
            typed = decode(apply_defaults(value, kind), partly=partly)
        except DecodeError as error:
            report(error.path, error.message, error.remedy)
            return
        origin = Origin(page.source.name, page.document.number, line)
        first = self._seen.setdefault(_identity(value), origin)
        if first is not origin:
            report("metadata.name", DUPLICATE.format(first=first), DUPLICATE_REMEDY)
            return
        self.objects.append(LoadedObject(typed, origin))
        if partly:
            fields = reason_of(unreadable_fields(typed))
            self.unreadable.append(UNREADABLE.format(place=origin, subject=subject(value), fields=fields))


class _Page:
    """A document in its file. The positions of its fields are computed at the first problem."""

    def __init__(self, source: sources.Source, document: Document) -> None:
        self.source = source
        self.document = document
        self._places: Places | None = None

    def problem(self, value: Any, prefix: str, path: str, message: str, remedy: str) -> Problem:
        if self._places is None:
            self._places = places_of(self.source.data, self.document)
        separator = "." if prefix and path and not path.startswith("[") else ""
        place = find(self._places, f"{prefix}{separator}{path}", default=Place(self.document.line))
        if place.plain and message.endswith(_TEXT_WANTED):
            remedy = QUOTE_REMEDY.format(plain=place.plain, kind=describe(_at(value, path)))
        return Problem(
            file=self.source.name,
            line=place.line,
            subject=subject(value),
            path=path,
            message=message,
            remedy=remedy,
        )


def _is_served(value: Any, path: str, message: str) -> bool:
    """Whether a hub serves a value that cannot be decoded, such as a time with an offset of 25 hours."""
    if not message.endswith(NO_TIME):
        return False
    accepts, text = text_format("date-time"), _at(value, path)
    return accepts is not None and isinstance(text, str) and accepts(text)


def subject(value: Any) -> str:
    """Format an object as `Placement ns1/web`, as far as its fields are set."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        return ""
    metadata = value.get("metadata")
    names = [metadata.get("namespace"), metadata.get("name")] if isinstance(metadata, dict) else []
    name = "/".join(cell(part) for part in names if part)
    return f"{value['kind']} {name}".rstrip()


def _complete_identity(value: dict[str, Any]) -> Finding | None:
    """Set a missing namespace as kubectl does, and return the problem of a missing or invalid name."""
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        return Finding("metadata.name", NO_NAME, NO_NAME_REMEDY)
    if not isinstance(metadata["name"], str):
        return Finding("metadata.name", NAME_NOT_TEXT, NO_NAME_REMEDY)
    if not _NAME.fullmatch(metadata["name"]) or len(metadata["name"]) > _LONGEST_NAME:
        return Finding("metadata.name", BAD_NAME.format(name=metadata["name"]), BAD_NAME_REMEDY)
    if value["kind"] in _CLUSTER_SCOPED:
        return None
    if metadata.get("namespace"):
        space = metadata["namespace"]
        if isinstance(space, str) and not _NAMESPACE.fullmatch(space):
            message = BAD_NAMESPACE.format(name=space)
            return Finding("metadata.namespace", message, BAD_NAMESPACE_REMEDY)
        return None
    if value["kind"] in _IN_CLUSTER_NAMESPACE:
        return Finding("metadata.namespace", NO_CLUSTER, NO_CLUSTER_REMEDY)
    value["metadata"] = {**metadata, "namespace": _DEFAULT_NAMESPACE}
    return None


def _identity(value: dict[str, Any]) -> tuple[str, str, str]:
    metadata = value["metadata"]
    namespace = "" if value["kind"] in _CLUSTER_SCOPED else metadata["namespace"]
    return value["kind"], namespace, metadata["name"]


def _at(value: Any, path: str) -> Any:
    for step in parse_path(path):
        if isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        elif isinstance(value, dict):
            value = value.get(str(step))
        else:
            return None
    return value


def documents_in(source: sources.Source) -> Iterator[Document]:
    """Parse as JSON by file name or first character, otherwise as YAML."""
    name = source.name.lower().removesuffix(".gz")
    begins = source.data[:4096].lstrip()[:1]
    if name.endswith((".json", ".jsonl")):
        return json_documents(source.data)
    if begins in (b"{", b"["):
        return _json_or_yaml(source.data)
    return yaml_documents(source.data)


def _json_or_yaml(data: bytes) -> Iterator[Document]:
    # YAML may start with a brace, too, but parsing JSON as JSON is many times faster.
    started = False
    try:
        for document in json_documents(data):
            started = True
            yield document
    except DocumentError:
        if started:
            raise
        yield from yaml_documents(data)


def malformed(source: sources.Source, error: DocumentError) -> Problem:
    where = f" (column {error.column})" if error.column else ""
    message = MALFORMED.format(notation=error.notation, reason=f"{error}{where}")
    # Parsers report a missing end on the line after the last one.
    last = source.data.rstrip().count(b"\n") + 1
    return Problem(file=source.name, line=min(error.line, last), message=message, remedy=error.remedy)


def _size(path: str) -> int:
    try:
        return sources.size_of(path)
    except OSError:
        return 0
