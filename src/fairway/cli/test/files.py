"""Read test files. Unknown fields are problems: a misspelt expectation would always hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from fairway.cli.errors import InputProblemsError, Problem
from fairway.cli.files import sources
from fairway.cli.files.loader import documents_in, malformed
from kubewire.documents.parser import DocumentError
from kubewire.documents.positions import Place, find, places_of
from kubewire.documents.reader import value_of

VERSION: Final = "fairway.dev/v1alpha1"
KIND: Final = "PlacementTest"
NO_TESTS: Final = "contains no PlacementTest"
NO_TESTS_REMEDY: Final = "see fairway test --help for the format"
EXPECTS_NOTHING: Final = "expects nothing, so that it always passes"
EXPECTS_REMEDY: Final = "set clusters, includes, excludes, count, satisfied or reasons"


class Expected(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    clusters: tuple[str, ...] | None = None
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    count: int | None = None
    satisfied: bool | None = None
    reasons: dict[str, str] = field(default_factory=dict)


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    placement: str
    expect: Expected
    name: str = ""
    drain: tuple[str, ...] = ()
    lose: tuple[str, ...] = ()
    set_weight: tuple[str, ...] = field(name="setWeight", default=())
    add_clusters: Annotated[int, Meta(ge=0, le=100_000)] = field(name="addClusters", default=0)

    @property
    def title(self) -> str:
        return self.name or self.placement


class _Spec(Struct, frozen=True, forbid_unknown_fields=True):
    tests: tuple[Case, ...]
    files: tuple[str, ...] = ()
    now: datetime | None = None


class _Metadata(Struct, frozen=True):
    name: str = ""


class _Document(Struct, frozen=True, forbid_unknown_fields=True):
    version: str = field(name="apiVersion")
    kind: str
    spec: _Spec
    metadata: _Metadata = _Metadata()


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one document."""

    file: str
    files: tuple[str, ...]
    """With the test file itself."""
    now: datetime | None
    cases: tuple[Case, ...]
    lines: tuple[int, ...]
    """Of the cases."""


def read(paths: Sequence[str]) -> list[Suite]:
    """Raises InputProblemsError with all problems."""
    problems: list[Problem] = []
    suites: list[Suite] = []
    for path in sources.find_files(paths, problems=problems):
        try:
            source = sources.read(path)
            for document in documents_in(source):
                value = value_of(document)
                if not isinstance(value, dict) or (value.get("apiVersion"), value.get("kind")) != (
                    VERSION,
                    KIND,
                ):
                    continue
                places = places_of(source.data, document)

                def line(field: str, *, places: Any = places, first: int = document.line) -> int:
                    return find(places, field, default=Place(first)).line

                try:
                    spec = msgspec.convert(value, _Document).spec
                except msgspec.ValidationError as error:
                    message, _, at = str(error).partition(" - at `$")
                    path_of = at.rstrip("`").removeprefix(".")
                    problems.append(
                        Problem(file=path, line=line(path_of), subject=KIND, path=path_of, message=message)
                    )
                    continue
                for number, case in enumerate(spec.tests):
                    if case.expect == Expected():
                        at = f"spec.tests[{number}].expect"
                        problems.append(
                            Problem(
                                file=path,
                                line=line(at),
                                subject=KIND,
                                path=at,
                                message=EXPECTS_NOTHING,
                                remedy=EXPECTS_REMEDY,
                            )
                        )
                folder = Path(path).parent
                suites.append(
                    Suite(
                        file=path,
                        files=(path, *(str(folder / name) for name in spec.files)),
                        now=spec.now,
                        cases=spec.tests,
                        lines=tuple(line(f"spec.tests[{number}]") for number in range(len(spec.tests))),
                    )
                )
        except sources.SourceError as error:
            problems.append(error.problem)
        except DocumentError as error:
            problems.append(malformed(source, error))
    if not problems and not suites:
        problems.append(Problem(file=", ".join(paths), message=NO_TESTS, remedy=NO_TESTS_REMEDY))
    if problems:
        raise InputProblemsError(problems)
    return suites
