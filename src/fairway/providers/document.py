"""Configuration files of providers and controllers: YAML or JSON to typed values; errors name file, line and field.

Scalars are those of YAML 1.2, so that ``22:00`` and ``no`` are strings.
"""

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from fairway.providers.provider import ProviderError
from kubewire.documents import parser, positions, reader, scalars

INVALID: Final = "ConfigurationInvalid"
"""Condition reason of every error in a configuration file."""

LARGEST: Final = 16 * 1024 * 1024
RULES: Final = parser.Rules(depth=40, resolve=scalars.resolve_core)

UNREADABLE: Final = "cannot be read ({why})"
TOO_LARGE: Final = f"is larger than {LARGEST // 1024 // 1024} MiB"
EMPTY: Final = "is empty"
NOT_YAML: Final = "is not valid YAML: {why}; {remedy}"
UNKNOWN_FIELD: Final = "is an unknown field{guess}"
NO_SUCH_WORD: Final = "must be one of {choices}; got {given}"
BAD_DURATION: Final = "expected a duration such as 30s, 5m or 1h30m, or a number of seconds, got {given!r}"

_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`")
_NO_WORD: Final = re.compile(r"Invalid enum value (.*)", re.DOTALL)
_PLAIN: Final = (
    ("Object missing required field", "misses the field"),
    ("Expected", "expected"),
    ("`str`", "text"),
    ("`object`", "a mapping"),
    ("`array`", "a list"),
    ("`int`", "a whole number"),
    ("`float`", "a number"),
    ("`bool`", "true or false"),
    ("`null`", "nothing"),
    (" | ", " or "),
)
"""Phrases of msgspec's errors and their replacements."""

Steps = tuple[str | int, ...]
T = TypeVar("T")


class DocumentError(ProviderError):
    """An error in a file. The text names the file, the line and the field."""

    def __init__(self, message: str, *, place: str, line: int = 0, field: str = "") -> None:
        self.place, self.line, self.field, self.message = place, line, field, message
        where = f"{place}:{line}" if line else place
        super().__init__(": ".join(part for part in (where, field, message) if part), reason=INVALID)


class Seconds(float):
    """A duration such as ``90``, ``30s``, ``5m``, ``1h30m`` or ``2d``."""

    _UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    _PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")

    @classmethod
    def parse(cls, given: object) -> "Seconds":
        """Raises ValueError, also for negative and infinite durations."""
        seconds: object = given
        if isinstance(given, str) and given and not cls._PART.sub("", given):
            seconds = sum(float(number) * cls._UNITS[unit] for number, unit in cls._PART.findall(given))
        if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < 1e12:
            return cls(seconds)
        raise ValueError(BAD_DURATION.format(given=given))

    def __str__(self) -> str:
        return f"{float(self):g}s"


@dataclass(frozen=True, slots=True)
class Document:
    value: Any
    place: str
    """The file, for messages."""
    data: bytes = field(repr=False, default=b"")
    first: int = 1
    """The line at which the value begins."""

    def _lines(self) -> dict[Steps, int]:
        places = positions.places_of(self.data, reader.Document(value=None, number=1, line=self.first))
        return {(): self.first} | {path: place.line for path, place in places.items()}

    def error(self, message: str, *path: str | int) -> DocumentError:
        """About the field at ``path``, at its line or that of the nearest field around it."""
        lines = self._lines()
        ancestor = path
        while ancestor not in lines:
            ancestor = ancestor[:-1]
        return DocumentError(
            message, place=self.place, line=lines[ancestor], field=format_path(path) if path else ""
        )

    def error_at(self, message: str, *, field: str, under: Steps = ()) -> DocumentError:
        """Return an error about ``field``, a path in text form relative to ``under``."""
        place = under
        for path in self._lines():
            if len(path) > len(place) and path[: len(under)] == under:
                text = format_path(path[len(under) :])
                if field == text or field.startswith((f"{text}.", f"{text}[")):
                    place = path
        line = self.error(message, *place).line
        if under:
            field = format_path(under) + (f".{field}" if field and not field.startswith("[") else field)
        return DocumentError(message, place=self.place, line=line, field=field)

    def convert(self, kind: type[T], *path: str | int) -> T:
        """Convert the part at ``path`` to ``kind``. Raises DocumentError."""
        value = self.value
        for step in path:
            value = value[step]
        try:
            return msgspec.convert(value, kind, dec_hook=_decode_hook)
        except msgspec.ValidationError as error:
            message, _, at = str(error).partition(" - at `")
            inner = _parse_path(at.removesuffix("`"))
            if unknown := _UNKNOWN.fullmatch(message):
                raise self.error(
                    _suggest(unknown[1], _fields(kind, inner)), *path, *inner, unknown[1]
                ) from None
            if word := _NO_WORD.fullmatch(message):
                choices = ", ".join(_choices(_type_description(kind, inner)))
                raise self.error(NO_SUCH_WORD.format(choices=choices, given=word[1]), *path, *inner) from None
            raise self.error(_simplify(message), *path, *inner) from None


def read(path: Path) -> Document:
    """Raises DocumentError."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise DocumentError(UNREADABLE.format(why=error.strerror), place=str(path)) from None
    return parse(data, place=str(path))


def parse(data: bytes, *, place: str) -> Document:
    """Return the only document of the text. Raises DocumentError."""
    if len(data) > LARGEST:
        raise DocumentError(TOO_LARGE, place=place)
    try:
        parsed = reader.yaml_document(data, RULES)
    except parser.DocumentError as error:
        message = NOT_YAML.format(why=error, remedy=error.remedy)
        raise DocumentError(message, place=place, line=error.line) from None
    if parsed is None:
        raise DocumentError(EMPTY, place=place)
    return Document(parsed.value, place, data, parsed.line)


def format_path(path: Steps) -> str:
    """Format ``("scores", 0, "query")`` as ``scores[0].query``; keys with other characters go in brackets."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text


def _parse_path(path: str) -> Steps:
    """Parse msgspec's ``$.scores[0].query``. A mapping key, which msgspec writes as ``[...]``, ends the path."""
    steps: list[str | int] = []
    for index, name in re.findall(r"\[(\d+|\.\.\.)\]|\.([^.\[]+)", path):
        if index == "...":
            break
        steps.append(name or int(index))
    return tuple(steps)


def _simplify(message: str) -> str:
    for theirs, ours in _PLAIN:
        message = message.replace(theirs, ours)
    return message.replace("`", "'")


def _suggest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    guess = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}" if known else ""
    return UNKNOWN_FIELD.format(guess=guess)


def _fields(kind: Any, path: Steps) -> list[str]:
    return [described.encode_name for described in getattr(_type_description(kind, path), "fields", ())]


def _choices(described: Any) -> list[str]:
    if isinstance(described, msgspec.inspect.EnumType):
        return [str(literal.value) for literal in described.cls]
    return [str(value) for value in getattr(described, "values", ())]


def _type_description(kind: Any, path: Steps) -> Any:
    """Return msgspec's description of the type at the path; for a mapping, that of its values."""
    described: Any = msgspec.inspect.type_info(kind)
    for step in (*path, None):
        if isinstance(described, msgspec.inspect.UnionType):
            described = next(
                (
                    type_
                    for type_ in described.types
                    if hasattr(type_, "fields") or hasattr(type_, "item_type")
                ),
                None,
            )
        if step is None:
            break
        if isinstance(step, int):
            described = getattr(described, "item_type", None)
        else:
            fields = getattr(described, "fields", ())
            described = next((candidate.type for candidate in fields if candidate.encode_name == step), None)
    return getattr(described, "value_type", described)


def _decode_hook(kind: type, given: Any) -> Any:
    if kind is Seconds:
        return Seconds.parse(given)
    raise NotImplementedError(kind)
