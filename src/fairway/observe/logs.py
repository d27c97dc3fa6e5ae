"""Format log records as lines: JSON, or text with ``key=value``.

A record is always one line. Names and messages come from objects of other users, and a line break or a control
character in them could forge a log line or control the terminal of the reader.
"""

import json
import logging
import math
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Literal, TextIO

Format = Literal["text", "json"]

FORMATS: Final = ("text", "json")
LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

UNKNOWN_FORMAT: Final = "unknown log format {given!r}: use one of {known}"
UNKNOWN_LEVEL: Final = "unknown log level {given!r}: use one of {known}"

LONGEST_TEXT: Final = 32_768
"""Maximum length of a field; longer values are truncated and marked."""
CUT: Final = "… ({more} more characters)"
DEEPEST_NESTING: Final = 8
UNPRINTABLE: Final = "<{type} that cannot be printed>"

_OWN: Final = ("ts", "level", "logger", "msg", "error", "stack")
_STANDARD: Final = frozenset(
    vars(logging.LogRecord("", 0, "", 0, "", (), None)).keys() | {"message", "asctime", "taskName"}
)


def configure(*, format: Format = "text", level: str = "info", stream: TextIO | None = None) -> None:  # noqa: A002  # the name of the option
    """Send all logs of this process, including Python's warnings, to ``stream``, by default standard error.

    Calling it again replaces its handler. Other handlers stay.
    """
    if format not in FORMATS:
        raise ValueError(UNKNOWN_FORMAT.format(given=format, known=", ".join(FORMATS)))
    number = LEVELS.get(level.lower())
    if number is None:
        raise ValueError(UNKNOWN_LEVEL.format(given=level, known=", ".join(LEVELS)))
    handler = Lines(stream if stream is not None else sys.stderr)
    handler.setFormatter(Json() if format == "json" else Text())
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, Lines)]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(number)
    logging.captureWarnings(True)


OWN_LOGGERS: Final = ("fairway", "kubehub", "kubewire")
"""Parents of the loggers of Fairway and its packages."""


class Lines(logging.StreamHandler[TextIO]):
    """The handler that ``configure`` sets up."""


class Json(logging.Formatter):
    """One JSON object per line, in ASCII, so that encodings and terminals cannot change it."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "ts": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": _short(_message(record)),
        }
        fields.update((key, _plain(value)) for key, value in _details(record, self))
        return json.dumps(fields, ensure_ascii=True, separators=(",", ":")).replace("\x7f", "\\u007f")


class Text(logging.Formatter):
    """Time, level, logger and message, then the fields. Ambiguous values are quoted."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_moment(record)} {record.levelname:<7} {_visible(record.name)} {_visible(_short(_message(record)))}"
        parts = [head, *(f"{_visible(key)}={_value(value)}" for key, value in _details(record, self))]
        return " ".join(parts)


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # Log the message even if its arguments do not match.
        return f"{_text(record.msg)} {_text(record.args)}"


def _details(record: logging.LogRecord, formatter: logging.Formatter) -> Iterator[tuple[str, object]]:
    for key, value in vars(record).items():
        if key not in _STANDARD and not key.startswith("_"):
            yield (f"{key}_" if key in _OWN else key), value
    if record.exc_info and record.exc_info[0] is not None:
        yield "error", _trace(record.exc_info, formatter)
    elif record.exc_text:
        yield "error", record.exc_text
    if record.stack_info:
        yield "stack", record.stack_info


def _trace(
    failure: tuple[type[BaseException], BaseException, TracebackType | None], formatter: logging.Formatter
) -> str:
    try:
        return formatter.formatException(failure)
    except Exception:  # its formatting may run code of other packages
        return UNPRINTABLE.format(type=failure[0].__name__)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # the same applies to values
        return UNPRINTABLE.format(type=type(value).__name__)


def _short(text: str) -> str:
    return (
        text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + CUT.format(more=len(text) - LONGEST_TEXT)
    )


def _plain(value: object, depth: int = 0) -> object:
    """Convert to JSON types; other values become strings."""
    match value:
        case None | bool():
            return value
        case int():
            # Many readers parse numbers as doubles, which would change larger ones.
            return int(value) if abs(value) < 1 << 53 else str(int(value))
        case float():
            return float(value) if math.isfinite(value) else str(value)
        case str():
            return _short(value)
        case Mapping() if depth < DEEPEST_NESTING:
            return {_short(_text(key)): _plain(item, depth + 1) for key, item in value.items()}
        case list() | tuple() | set() | frozenset() if depth < DEEPEST_NESTING:
            return [_plain(item, depth + 1) for item in value]
        case _:
            return _short(_text(value))


def _value(value: object) -> str:
    if isinstance(value, str):
        text = _short(value)
    elif isinstance(value, bool | None):
        return json.dumps(value)
    elif isinstance(value, Mapping | list | tuple | set | frozenset):
        text = json.dumps(_plain(value), ensure_ascii=False)
    else:
        text = _short(_text(value))
    if text and text.isprintable() and not any(char in ' "=\\' for char in text):
        return text
    return '"' + _visible(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


_SHORT_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _visible(text: str) -> str:
    """Escape line breaks, control characters, and characters that change the direction of text."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(character: str) -> str:
    code = ord(character)
    short = _SHORT_ESCAPES.get(character)
    if short is not None:
        return short
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
