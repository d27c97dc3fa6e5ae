"""Label selectors: the wire form, and the compiled form that decides.

A selector in the wire form may be invalid in ways that only compiling finds. Error messages are Kubernetes' own,
because they are written to the status of placements, where users and tools compare them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final

import msgspec
from msgspec import Struct, field

from kubewire.api import naming
from kubewire.api.annotation import Field

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)

VALUES_NEEDED: Final = "for 'in', 'notin' operators, values set can't be empty"
VALUES_UNWANTED: Final = "values set must be empty for exists and does not exist"


class SelectorError(ValueError):
    """The selector is invalid. The message is Kubernetes' own."""


class LabelSelectorRequirement(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    key: Annotated[str, Field("The key that the requirement applies to.", required=True)] = field(
        default_factory=str
    )
    operator: Annotated[str, Field("In, NotIn, Exists or DoesNotExist.", required=True)] = field(
        default_factory=str
    )
    values: Annotated[
        tuple[str, ...],
        Field("At least one value for In and NotIn, none for the others.", list_type="atomic"),
    ] = ()


class LabelSelector(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    matchExpressions: Annotated[
        tuple[LabelSelectorRequirement, ...],
        Field("Requirements, all of which must be met.", list_type="atomic"),
    ] = ()
    matchLabels: Annotated[dict[str, str], Field("Keys with the exact value each must have.")] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator == IN:
            return value is not None and value in self.values
        if self.operator == NOT_IN:
            return value is None or value not in self.values
        return (value is not None) is (self.operator == EXISTS)

    def explain(self, labels: Mapping[str, str], *, noun: str = "label") -> str | None:
        """Return why it is not met; None if it is."""
        if self.matches(labels):
            return None
        value = labels.get(self.key)
        actual = f"{noun} {quote(self.key)} is {'missing' if value is None else quote(value)}"
        listed = ", ".join(quote(wanted) for wanted in sorted(self.values))
        several = "one of " if len(self.values) > 1 else ""
        match self.operator:
            case "In":
                return f"{actual}, needs {several}{listed}"
            case "NotIn":
                return f"{actual}, must not be {several}{listed}"
            case "Exists":
                return actual
            case _:
                return f"{actual}, must be absent"


@dataclass(frozen=True, slots=True)
class Selector:
    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.nothing and all(requirement.matches(labels) for requirement in self.requirements)

    def explain(self, labels: Mapping[str, str], *, noun: str = "label") -> str | None:
        """Return why the first unmet requirement is not met; None if all are met."""
        if self.nothing:
            return f"no {noun} selector is given, so nothing is selected"
        unmet = (requirement.explain(labels, noun=noun) for requirement in self.requirements)
        return next((text for text in unmet if text is not None), None)


SELECT_NOTHING: Final = Selector(nothing=True)
SELECT_EVERYTHING: Final = Selector()


def compile_selector(selector: LabelSelector | None) -> Selector:
    """Compile a selector. Raise SelectorError for the first invalid requirement: labels by key, then expressions."""
    if selector is None:
        return SELECT_NOTHING
    return Selector(
        requirements=(
            *(_requirement(key, IN, (selector.matchLabels[key],)) for key in sorted(selector.matchLabels)),
            *(
                _requirement(expression.key, expression.operator, expression.values)
                for expression in selector.matchExpressions
            ),
        )
    )


def compile_requirements(requirements: Sequence[LabelSelectorRequirement]) -> Selector:
    """As for a selector without ``matchLabels``, which is what a claim selector is."""
    if not requirements:
        return SELECT_EVERYTHING
    return compile_selector(LabelSelector(matchExpressions=tuple(requirements)))


@lru_cache(maxsize=4096)
def _requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """Compile a requirement, cached: placements of a fleet share few requirements."""
    problems = tuple(requirement_problems(key=key, operator=operator, values=values))
    if not problems:
        return Requirement(key=key, operator=operator, values=frozenset(values))
    distinct = tuple(dict.fromkeys(problem for _, problem in problems))
    raise SelectorError(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")


def requirement_problems(*, key: str, operator: str, values: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of (field, refusal), with the field relative to the requirement.

    An unknown operator hides the rest, as it does in Kubernetes.
    """
    if operator not in OPERATORS:
        yield "operator", f"{quote(operator)} is not a valid label selector operator"
        return
    if faults := "; ".join(naming.label_key(key)):
        yield "key", f"key: Invalid value: {quote(key)}: {faults}"
    if operator in (IN, NOT_IN):
        if not values:
            yield "values", f"values: Invalid value: null: {VALUES_NEEDED}"
    elif values:
        yield "values", f"values: Invalid value: {_json(values)}: {VALUES_UNWANTED}"
    for index, value in enumerate(values):
        if faults := "; ".join(naming.label_value(value)):
            yield f"values[{index}]", f"values[{index}][{key}]: Invalid value: {quote(value)}: {faults}"


_ESCAPES: Final = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v",
    '"': r"\"", "\\": r"\\",
}  # fmt: skip


def quote(text: str) -> str:
    """In double quotes, escaped the way Go's ``%q`` does it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_escape(char) for char in text) + '"'


def _escape(char: str) -> str:
    if (known := _ESCAPES.get(char)) is not None:
        return known
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json(values: Sequence[str]) -> str:
    text = msgspec.json.encode(values).decode()
    # Go's encoder also escapes what HTML and JavaScript would trip over.
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
