"""Configuration files of providers: YAML or JSON to typed values; errors name file, line and field.

Parsed from libyaml's events instead of PyYAML's constructor: that keeps the line of every field, leaves ``22:00`` and
``no`` as strings, and limits the depth and the expansion of aliases.
"""

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from fairway.providers.provider import ProviderError

INVALID: Final = "ConfigurationInvalid"
"""The reason of everything that is wrong with a file."""

LARGEST: Final = 16 * 1024 * 1024
DEEPEST: Final = 40
MOST_VALUES: Final = 500_000

UNREADABLE: Final = "cannot be read ({why})"
TOO_LARGE: Final = f"is larger than {LARGEST // 1024 // 1024} MiB"
TOO_DEEP: Final = f"is nested more than {DEEPEST} levels deep"
TOO_MANY: Final = f"stands for more than {MOST_VALUES} values, aliases written out"
NOTHING: Final = "is empty"
ONE_DOCUMENT: Final = "has more than one document"
TWICE: Final = "the key {key!r} is given twice"
NO_KEY: Final = "a key must be text"
NO_ANCHOR: Final = "the alias *{name} has no anchor &{name} before it"
NOT_YAML: Final = "is not YAML: {why}"
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
"""msgspec's words, and those of people who write YAML."""

Steps = tuple[str | int, ...]
T = TypeVar("T")


class DocumentError(ProviderError):
    """What is wrong with a file; the text names the file, the line and the field."""

    def __init__(self, message: str, *, place: str, line: int = 0, field: str = "") -> None:
        self.place, self.line, self.field, self.message = place, line, field, message
        where = f"{place}:{line}" if line else place
        super().__init__(": ".join(part for part in (where, field, message) if part), reason=INVALID)


class Seconds(float):
    """A duration as people write it: ``90``, ``30s``, ``5m``, ``1h30m``, ``2d``."""

    _UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    _PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")

    @classmethod
    def parse(cls, given: object) -> "Seconds":
        """Raises ValueError; also for what is negative or endless."""
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
    lines: dict[Steps, int] = field(repr=False, default_factory=dict)

    def error(self, message: str, *path: str | int) -> DocumentError:
        """About the field at ``path``, at its line or that of the nearest field around it."""
        found = path
        while found and found not in self.lines:
            found = found[:-1]
        return DocumentError(
            message, place=self.place, line=self.lines.get(found, 1), field=written(path) if path else ""
        )

    def refusal(self, message: str, *, field: str, under: Steps = ()) -> DocumentError:
        """The same about a field as it is written, within the part at ``under``: for those who were given only that."""
        found = under
        for path in self.lines:
            if len(path) > len(found) and path[: len(under)] == under:
                text = written(path[len(under) :])
                if field == text or field.startswith((f"{text}.", f"{text}[")):
                    found = path
        line = self.error(message, *found).line
        if under:
            field = written(under) + (f".{field}" if field and not field.startswith("[") else field)
        return DocumentError(message, place=self.place, line=line, field=field)

    def convert(self, kind: type[T], *path: str | int) -> T:
        """The part at ``path`` as a typed value. Raises DocumentError."""
        value = self.value
        for step in path:
            value = value[step]
        try:
            return msgspec.convert(value, kind, dec_hook=_hook)
        except msgspec.ValidationError as error:
            message, _, at = str(error).partition(" - at `")
            inner = _steps(at.removesuffix("`"))
            if unknown := _UNKNOWN.fullmatch(message):
                raise self.error(
                    _guess(unknown[1], _fields(kind, inner)), *path, *inner, unknown[1]
                ) from None
            if word := _NO_WORD.fullmatch(message):
                choices = ", ".join(_choices(_described(kind, inner)))
                raise self.error(NO_SUCH_WORD.format(choices=choices, given=word[1]), *path, *inner) from None
            raise self.error(_plainly(message), *path, *inner) from None


def read(path: Path) -> Document:
    """Raises DocumentError."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise DocumentError(UNREADABLE.format(why=error.strerror), place=str(path)) from None
    return parse(data, place=str(path))


def parse(data: bytes, *, place: str) -> Document:
    """The one document of the text. Raises DocumentError."""
    if len(data) > LARGEST:
        raise DocumentError(TOO_LARGE, place=place)
    loader = yaml.CSafeLoader(data)
    reader = _Reader(place)
    try:
        while not isinstance(event := loader.get_event(), yaml.StreamEndEvent):
            reader.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = " ".join(part for part in (error.context, error.problem) if part)
        # What is missing at the end is looked for on the line after the last.
        line = min(mark.line, data.count(b"\n")) + 1 if mark else 0
        raise DocumentError(NOT_YAML.format(why=why), place=place, line=line) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DocumentError(NOT_YAML.format(why=" ".join(str(error).split())), place=place) from None
    finally:
        loader.dispose()
    if reader.documents == 0 or reader.value is None:
        raise DocumentError(NOTHING, place=place)
    return Document(reader.value, place, reader.lines)


def written(path: Steps) -> str:
    """``("scores", 0, "query")`` as ``scores[0].query``; keys with odd characters in brackets."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text


def _steps(path: str) -> Steps:
    """msgspec's ``$.scores[0].query``. What it calls ``[...]``, a key of a mapping, ends the path."""
    steps: list[str | int] = []
    for index, name in re.findall(r"\[(\d+|\.\.\.)\]|\.([^.\[]+)", path):
        if index == "...":
            break
        steps.append(name or int(index))
    return tuple(steps)


def _plainly(message: str) -> str:
    for theirs, ours in _PLAIN:
        message = message.replace(theirs, ours)
    return message.replace("`", "'")


def _guess(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    guess = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}" if known else ""
    return UNKNOWN_FIELD.format(guess=guess)


def _fields(kind: Any, path: Steps) -> list[str]:
    """The fields of the struct at the path, as they are written."""
    return [each.encode_name for each in getattr(_described(kind, path), "fields", ())]


def _choices(described: Any) -> list[str]:
    if isinstance(described, msgspec.inspect.EnumType):
        return [str(each.value) for each in described.cls]
    return [str(each) for each in getattr(described, "values", ())]


def _described(kind: Any, path: Steps) -> Any:
    """What msgspec knows of the type at the path; of the values of a mapping where the path ends with one."""
    described: Any = msgspec.inspect.type_info(kind)
    for step in (*path, None):
        if isinstance(described, msgspec.inspect.UnionType):
            described = next(
                (each for each in described.types if hasattr(each, "fields") or hasattr(each, "item_type")),
                None,
            )
        if step is None:
            break
        if isinstance(step, int):
            described = getattr(described, "item_type", None)
        else:
            fields = getattr(described, "fields", ())
            described = next((each.type for each in fields if each.encode_name == step), None)
    return getattr(described, "value_type", described)


def _hook(kind: type, given: Any) -> Any:
    if kind is Seconds:
        return Seconds.parse(given)
    raise NotImplementedError(kind)


_WORDS: Final[dict[str, bool | float | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,18}")
_DECIMAL: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def _scalar(text: str) -> Any:
    """As in YAML 1.2's core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


@dataclass(slots=True)
class _Open:
    value: Any
    path: Steps
    anchor: str | None
    before: int
    """Values read before it began, which tells how many it holds."""
    key: str | None = None
    keyed: bool = False


class _Reader:
    def __init__(self, place: str) -> None:
        self.value: Any = None
        self.lines: dict[Steps, int] = {}
        self.documents = 0
        self._place = place
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._values = 0

    def take(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise DocumentError(ONE_DOCUMENT, place=self._place, line=line)
        elif isinstance(event, yaml.ScalarEvent):
            if self._wants_key():
                self._key(event.value, line)
                return
            plain = event.tag is None and event.implicit[0]
            value = _scalar(event.value) if plain else event.value
            self._place_value(value, line, size=1)
            if event.anchor:
                self._anchors[event.anchor] = (value, 1)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if self._wants_key():
                raise DocumentError(NO_KEY, place=self._place, line=line)
            if len(self._open) >= DEEPEST:
                raise DocumentError(TOO_DEEP, place=self._place, line=line)
            value = {} if isinstance(event, yaml.MappingStartEvent) else []
            before = self._values
            path = self._place_value(value, line, size=1)
            self._open.append(_Open(value, path, event.anchor, before))
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            closed = self._open.pop()
            if closed.anchor:  # only now, so that nothing can contain itself
                self._anchors[closed.anchor] = (closed.value, self._values - closed.before)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise DocumentError(NO_ANCHOR.format(name=event.anchor), place=self._place, line=line)
            value, size = self._anchors[event.anchor]
            if self._wants_key():
                self._key(value, line)
                return
            self._place_value(value, line, size=size)

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and not self._open[-1].keyed

    def _key(self, key: Any, line: int) -> None:
        top = self._open[-1]
        if not isinstance(key, str):
            raise DocumentError(NO_KEY, place=self._place, line=line)
        if key in top.value:
            raise DocumentError(TWICE.format(key=key), place=self._place, line=line, field=written(top.path))
        top.key, top.keyed = key, True
        self.lines[*top.path, key] = line

    def _place_value(self, value: Any, line: int, *, size: int) -> Steps:
        self._values += size
        if self._values > MOST_VALUES:
            raise DocumentError(TOO_MANY, place=self._place, line=line)
        if not self._open:
            self.value = value
            self.lines[()] = line
            return ()
        top = self._open[-1]
        if isinstance(top.value, list):
            path: Steps = (*top.path, len(top.value))
            top.value.append(value)
            self.lines[path] = line
        else:
            key = top.key or ""
            path = (*top.path, key)
            top.value[key] = value
            top.keyed = False
        return path
