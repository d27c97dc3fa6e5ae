"""Check a document of a user strictly, before it is decoded.

Decoding is lenient, because a hub may contain invalid objects. In a file of a user, a misspelt field must not be
dropped silently. The walk over the schema is compiled to closures once per kind.
"""

import binascii
import difflib
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from fairway.api.hosted_request import (
    SIZE_AND_DEMAND,
    TWO_SELECTIONS,
    HostedClusterRequestSpec,
    HostingConstraints,
)
from fairway.api.hosting_policy import (
    NEGATIVE_AMOUNT,
    NO_TOKENS,
    SAME_TIMES,
    SEVERAL_DEFAULTS,
    TOKEN_SECRETS,
    HostedClusterDemand,
    HostedClusterSize,
    HostingPermits,
    HostingPolicySpec,
    HostingQuota,
    QuietHours,
)
from fairway.api.work import CEL, ConditionRule
from kubewire.api import naming
from kubewire.api.annotation import NO_DEFAULT, Field, Time
from kubewire.api.meta import ObjectMeta
from kubewire.api.quantity import QUANTITY_REMEDY, Quantity, QuantityError
from kubewire.api.schema import QUANTITY_PATTERN
from kubewire.api.selector import (
    OPERATORS,
    LabelSelector,
    LabelSelectorRequirement,
    quote,
    requirement_problems,
)
from kubewire.api.shape import Form, Node, shape_of


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.message}; {self.remedy}" if self.path else f"{self.message}; {self.remedy}"
        )


UNKNOWN_FIELD: Final = "is not a field of"
MISSING: Final = "is required and missing"
NOT_ALLOWED: Final = "is not one of the allowed values"
NO_MATCH: Final = "does not have the required form"
OUT_OF_BOUNDS: Final = "is out of bounds"
WRONG_LENGTH: Final = "has the wrong length"
DUPLICATE: Final = "is listed twice"
NO_TIME: Final = "is not a time"
NO_BASE64: Final = "is not base64"

_NAME_REMEDY: Final = "give the object a name"
_KEY_REMEDY: Final = 'write a key like "region" or "example.com/region"'
_VALUE_REMEDY: Final = "use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
_TIME_REMEDY: Final = 'write it like "2026-03-01T12:00:00Z"'
_BOUNDS: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}

_Check = Callable[[Any, str], Iterator[Problem]]

# Set by the API server; harmless in a document that was exported from a hub.
_SERVER_METADATA: Final = frozenset({"managedFields", "selfLink"})


def check(document: Mapping[str, Any], *, kind: type[Struct]) -> tuple[Problem, ...]:
    """Return all problems, in the order of the schema. Null counts as absent, as on the API server."""
    problems = tuple(_checker(kind)(document, ""))
    if isinstance(document, Mapping) and document.get("metadata") is None:
        return (*problems, Problem("metadata.name", MISSING, _NAME_REMEDY))
    return problems


@cache
def _checker(kind: type[Struct]) -> _Check:
    return _compile(shape_of(kind))


def _compile(node: Node) -> _Check:
    match node.form:
        case Form.OBJECT:
            return _object(node)
        case Form.LIST:
            return _list(node)
        case Form.MAP:
            return _map(node)
        case Form.INTEGER:
            return _integer(node.rules)
        case Form.BOOLEAN:
            return _boolean
        case Form.TIME:
            return _time
        case Form.BYTES:
            return _bytes
        case Form.QUANTITY:
            return _quantity
        case Form.INT_OR_TEXT:
            return _int_or_text(node.rules)
        case Form.TEXT:
            return _text(node.rules)
        case Form.RAW:
            return _embedded if node.rules.embedded else _raw


def _object(node: Node) -> _Check:
    struct = node.struct
    assert struct is not None
    checks = {name: _compile(child) for name, child in node.properties}
    required = tuple(
        (name, child.rules.description)
        for name, child in node.properties
        if child.rules.required and child.rules.default is NO_DEFAULT
    )
    ignored = _SERVER_METADATA if struct is ObjectMeta else frozenset[str]()
    further = _FURTHER.get(struct)

    def run(value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, Mapping):
            yield _mistyped(value, path, "a mapping", "write its fields below it, indented")
            return
        prefix = f"{path}." if path else ""
        for name, child in value.items():
            inner = checks.get(name)
            if inner is None:
                if name not in ignored:
                    yield _unknown(name, path=f"{prefix}{name}", struct=struct, known=checks)
            elif child is not None:
                yield from inner(child, f"{prefix}{name}")
        for name, description in required:
            if value.get(name) is None:
                remedy = f"add it: {description[:1].lower()}{description[1:].rstrip('.')}"
                yield Problem(f"{prefix}{name}", MISSING, remedy)
        if further is not None:
            yield from further(value, path)

    return run


def _list(node: Node) -> _Check:
    assert node.items is not None
    inner, most, keys = _compile(node.items), node.rules.max_items, node.rules.map_keys

    def run(value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, list | tuple):
            yield _mistyped(value, path, "a list", "start each item with a dash")
            return
        if most is not None and len(value) > most:
            yield Problem(path, f"{WRONG_LENGTH}: {len(value)} items", f"keep at most {most}")
        for index, item in enumerate(value):
            yield from inner(item, f"{path}[{index}]")
        if keys:
            yield from _duplicates(value, path, keys)

    return run


def _duplicates(value: Sequence[Any], path: str, keys: tuple[str, ...]) -> Iterator[Problem]:
    seen: set[tuple[str, ...]] = set()
    for index, item in enumerate(value):
        if not isinstance(item, Mapping):
            continue
        key = tuple(str(item.get(field)) for field in keys)
        if key in seen:
            named = " and ".join(f"{field} {quote(text)}" for field, text in zip(keys, key, strict=True))
            yield Problem(f"{path}[{index}]", f"{named} {DUPLICATE}", "keep one of the two")
        seen.add(key)


def _map(node: Node) -> _Check:
    assert node.items is not None
    inner = _compile(node.items)

    def run(value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, Mapping):
            yield _mistyped(value, path, "a mapping", "write its entries below it, indented")
            return
        for name, child in value.items():
            place = f"{path}[{name}]"
            if not isinstance(name, str):
                yield _mistyped(name, place, "text", f'put the key in quotes: "{name}"')
            elif child is not None:
                yield from inner(child, place)

    return run


def _text(rules: Field) -> _Check:
    pattern = re.compile(rules.pattern) if rules.pattern else None
    allowed, least, most = rules.enum, rules.min_length, rules.max_length

    def run(value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, str):
            yield _mistyped(value, path, "text", f'put it in quotes: "{_plain(value)}"')
            return
        if allowed and value not in allowed:
            near = difflib.get_close_matches(value, allowed, n=1, cutoff=0.5)
            meant = f"did you mean {near[0]}? " if near else ""
            yield Problem(path, f"{quote(value)} {NOT_ALLOWED}", f"{meant}write {_either(allowed)}")
        if least is not None and len(value) < least:
            yield Problem(path, f"{WRONG_LENGTH}: {len(value)}", f"write at least {least} character")
        if most is not None and len(value) > most:
            yield Problem(path, f"{WRONG_LENGTH}: {len(value)}", f"keep at most {most} characters")
        elif pattern is not None and not _matches(pattern, value):
            yield Problem(path, f"{quote(value)} {NO_MATCH}", f"it must match {pattern.pattern}")

    return run


def _integer(rules: Field) -> _Check:
    low, high = _BOUNDS[rules.format or "int64"]
    low = low if rules.minimum is None else rules.minimum
    high = high if rules.maximum is None else rules.maximum

    def run(value: Any, path: str) -> Iterator[Problem]:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            yield _mistyped(value, path, "a whole number", "write digits only, without quotes")
        elif not low <= value <= high:
            yield Problem(path, f"{value} {OUT_OF_BOUNDS}", f"write a number from {low} to {high}")

    return run


def _boolean(value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, bool):
        yield _mistyped(value, path, "true or false", "write true or false, without quotes")


def _time(value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, str | datetime):
        yield _mistyped(value, path, "a time", _TIME_REMEDY)
        return
    try:
        msgspec.convert(value, Time)
    except msgspec.ValidationError:
        yield Problem(path, f"{quote(str(value))} {NO_TIME}", _TIME_REMEDY)


def _bytes(value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield _mistyped(value, path, "text", "write the bytes in base64")
        return
    try:
        b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        yield Problem(path, NO_BASE64, "encode the bytes in base64")


_QUANTITY: Final = re.compile(QUANTITY_PATTERN)


def _quantity(value: Any, path: str) -> Iterator[Problem]:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        yield _mistyped(value, path, "a quantity", QUANTITY_REMEDY)
        return
    try:
        Quantity.parse(value)
    except QuantityError as error:
        message, _, remedy = str(error).partition("; ")
        yield Problem(path, message, remedy)
        return
    # The schema refuses a few texts the parser lets through, such as a suffix without digits.
    if isinstance(value, str) and not _matches(_QUANTITY, value):
        yield Problem(path, f"{quote(value)} {NO_MATCH}", QUANTITY_REMEDY)


def _int_or_text(rules: Field) -> _Check:
    text = _text(rules)

    def run(value: Any, path: str) -> Iterator[Problem]:
        if isinstance(value, str):
            yield from text(value, path)
        elif isinstance(value, bool) or not isinstance(value, int):
            yield _mistyped(value, path, "a whole number or text", 'write it like 5 or "25%"')

    return run


def _raw(value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, Mapping):
        yield _mistyped(value, path, "a mapping", "write its fields below it, indented")


def _embedded(value: Any, path: str) -> Iterator[Problem]:
    yield from _raw(value, path)
    if isinstance(value, Mapping):
        for name in ("apiVersion", "kind"):
            if not (written := value.get(name)):
                yield Problem(f"{path}.{name}", MISSING, f"add it: the {name} of the object")
            elif not isinstance(written, str):
                yield _mistyped(written, f"{path}.{name}", "text", f'put it in quotes: "{_plain(written)}"')


def _condition_rule(value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if value.get("type") == CEL and value.get("condition") == "":
        yield Problem(f"{path}.condition", MISSING, "name the condition that the expressions decide")


def _request(value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if value.get("size") is not None and value.get("demand") is not None:
        yield _ruled(path, SIZE_AND_DEMAND)


def _constraints(value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    inline = (value.get(name) for name in ("selector", "tolerations"))
    if value.get("placement") is not None and any(field is not None for field in inline):
        yield _ruled(path, TWO_SELECTIONS)


def _amounts(value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for name in ("cpu", "memory"):
        if str(value.get(name)).startswith("-"):
            yield _ruled(f"{path}.{name}", NEGATIVE_AMOUNT)


def _policy(value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    classes = value.get("priorityClasses")
    if isinstance(classes, Sequence):
        defaults = [
            class_ for class_ in classes if isinstance(class_, Mapping) and class_.get("default") is True
        ]
        if len(defaults) > 1:
            yield _ruled(f"{path}.priorityClasses", SEVERAL_DEFAULTS)


def _quiet_hours(value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if value.get("start") is not None and value.get("start") == value.get("end"):
        yield _ruled(path, SAME_TIMES)


def _permits(value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    types = value.get("secretTypes")
    if isinstance(types, Sequence) and any(name in types for name in TOKEN_SECRETS):
        yield _ruled(f"{path}.secretTypes", NO_TOKENS)


def _ruled(path: str, message: str) -> Problem:
    """Split the message of a CEL rule, which names the fault and the remedy."""
    fault, _, remedy = message.partition(": ")
    return Problem(path, fault, remedy)


def _metadata(value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if not value.get("name") and not value.get("generateName"):
        yield Problem(f"{path}.name", MISSING, _NAME_REMEDY)
    yield from _labels(value.get("labels"), f"{path}.labels")


def _label_selector(value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from _labels(value.get("matchLabels"), f"{path}.matchLabels")


def _labels(labels: Any, path: str) -> Iterator[Problem]:
    if not isinstance(labels, Mapping):
        return
    for key, value in labels.items():
        if not isinstance(key, str) or not isinstance(value, str):
            continue
        if faults := "; ".join(naming.label_key(key)):
            yield Problem(f"{path}[{key}]", f"key {quote(key)}: {faults}", _KEY_REMEDY)
        if faults := "; ".join(naming.label_value(value)):
            yield Problem(f"{path}[{key}]", f"value {quote(value)}: {faults}", _VALUE_REMEDY)


def _requirement(value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    key, operator, values = value.get("key"), value.get("operator"), value.get("values") or ()
    if not isinstance(key, str) or not isinstance(operator, str) or not isinstance(values, list | tuple):
        return
    if not all(isinstance(value, str) for value in values):
        return
    for place, message in requirement_problems(key=key, operator=operator, values=values):
        remedy = _KEY_REMEDY if place == "key" else _VALUE_REMEDY
        if place == "operator":
            near = difflib.get_close_matches(operator.title(), OPERATORS, n=1, cutoff=0.5)
            remedy = f"{f'did you mean {near[0]}? ' if near else ''}write {_either(OPERATORS)}"
        elif place == "values":
            remedy = "list at least one value" if not values else "remove the values"
        # The path already names the field; keep only Kubernetes' message about the value.
        yield Problem(f"{path}.{place}", message.partition(": Invalid value: ")[2] or message, remedy)


_FURTHER: Final[Mapping[type[Struct], Callable[[Mapping[str, Any], str], Iterator[Problem]]]] = {
    ObjectMeta: _metadata,
    LabelSelector: _label_selector,
    LabelSelectorRequirement: _requirement,
    ConditionRule: _condition_rule,
    HostedClusterRequestSpec: _request,
    HostingConstraints: _constraints,
    HostedClusterDemand: _amounts,
    HostedClusterSize: _amounts,
    HostingPermits: _permits,
    HostingPolicySpec: _policy,
    HostingQuota: _amounts,
    QuietHours: _quiet_hours,
}


def _matches(pattern: re.Pattern[str], value: str) -> bool:
    # Python's $ also matches before a last newline, the API server's does not.
    return not value.endswith("\n") and pattern.search(value) is not None


def _unknown(name: object, *, path: str, struct: type[Struct], known: Mapping[str, object]) -> Problem:
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
    remedy = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
    return Problem(
        path, f"{quote(str(name))} {UNKNOWN_FIELD} {struct.__name__.removesuffix('V1Alpha1')}", remedy
    )


def _mistyped(value: object, path: str, wanted: str, remedy: str) -> Problem:
    return Problem(path, f"is {_described(value)}, must be {wanted}", remedy)


def _described(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {quote(value if len(value) <= 40 else value[:39] + '…')}"
        case int() | float():
            return f"the number {value}"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "a mapping"
        case _:
            return f"of the type {type(value).__name__}"


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else "…"


def _either(options: tuple[str, ...]) -> str:
    return f"{', '.join(options[:-1])} or {options[-1]}"
