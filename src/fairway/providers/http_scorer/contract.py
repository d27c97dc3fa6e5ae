"""The Dynamic Scoring contract: configuration, requests and responses of a scorer.

    GET  /healthz   200
    GET  /config    {name, description, source: {type, params: {query, range, step}}, scoring: {path, params: {name}}}
    POST <path>     {data: [{metric: {...}, values: [[time, "value"], ...]}]}
                 →  {results: [{metric: {...}, score: number}]}

Responses are checked field by field, and errors name the field. An invalid score affects only its cluster, unless all
are invalid.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from fairway.providers.provider import ProviderError

BAD_CONFIG: Final = "ScorerConfigInvalid"
BAD_ANSWER: Final = "ScorerAnswerInvalid"

CONFIG_FIELD: Final = "configuration returned by the scorer: {field}: {why}"
ANSWER_FIELD: Final = "response of the scorer: {field}: {why}"
NOT_A_MAPPING: Final = "expected an object, got {kind}"
NOT_A_LIST: Final = "expected a list, got {kind}"
NOT_A_NUMBER: Final = "expected a number, got {given}"
NOT_FINITE: Final = "{given} is not a finite number"
NOT_THERE: Final = "is missing"


class SourceParams(Struct, frozen=True):
    query: str = ""
    range: float = 0.0
    """Seconds; 0 requests the newest value only."""
    step: float = 0.0


class Source(Struct, frozen=True):
    type: str = "None"
    params: SourceParams = SourceParams()


class ScoringParams(Struct, frozen=True):
    name: str = ""


class Scoring(Struct, frozen=True):
    path: str = ""
    params: ScoringParams = ScoringParams()


class ScorerConfig(Struct, frozen=True):
    """The fields that are used. Hosts are ignored: they are addresses as seen from a managed cluster."""

    name: str = ""
    source: Source = field(default_factory=Source)
    scoring: Scoring = field(default_factory=Scoring)


@dataclass(frozen=True, slots=True)
class Result:
    labels: Mapping[str, str]
    score: float
    """NaN if there is a problem."""
    problem: str = ""
    """Why there is no score."""


def config_of(given: Any) -> ScorerConfig:
    """Raises ProviderError."""
    try:
        return msgspec.convert(given, ScorerConfig)
    except msgspec.ValidationError as error:
        why, _, at = str(error).partition(" - at `$.")
        message = CONFIG_FIELD.format(field=at.removesuffix("`") or "its form", why=why.replace("`", "'"))
        raise ProviderError(message, reason=BAD_CONFIG) from None


def request_body(data: Iterable[tuple[Mapping[str, str], Iterable[tuple[float, float]]]]) -> bytes:
    return msgspec.json.encode(
        {
            "data": [
                {"metric": labels, "values": [(at, format_sample(value)) for at, value in points]}
                for labels, points in data
            ]
        }
    )


def format_sample(value: float) -> str:
    """Format as Prometheus does."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)


def results_of(given: Any) -> tuple[Result, ...]:
    """Raises ProviderError for an invalid response, and if it has scores but none is valid."""
    if not isinstance(given, dict):
        raise _error("its form", NOT_A_MAPPING.format(kind=_kind(given)))
    if "results" not in given:
        raise _error("results", NOT_THERE)
    listed = given["results"]
    if not isinstance(listed, list):
        raise _error("results", NOT_A_LIST.format(kind=_kind(listed)))
    results = tuple(_result(entry, index) for index, entry in enumerate(listed))
    if results and all(result.problem for result in results):
        raise ProviderError(results[0].problem, reason=BAD_ANSWER)
    return results


def _result(given: Any, index: int) -> Result:
    at = f"results[{index}]"
    if not isinstance(given, dict):
        raise _error(at, NOT_A_MAPPING.format(kind=_kind(given)))
    labels = given.get("metric", {})
    if not isinstance(labels, dict):
        raise _error(f"{at}.metric", NOT_A_MAPPING.format(kind=_kind(labels)))
    for name, value in labels.items():
        if not isinstance(value, str):
            raise _error(f"{at}.metric.{name}", f"expected a string, got {_kind(value)}")
    try:
        return Result(labels, _score(given))
    except ValueError as error:
        return Result(labels, math.nan, ANSWER_FIELD.format(field=f"{at}.score", why=error))


def _score(given: Mapping[str, Any]) -> float:
    """Raises ValueError."""
    if "score" not in given:
        raise ValueError(NOT_THERE)
    score = given["score"]
    if not isinstance(score, int | float) or isinstance(score, bool):
        raise ValueError(NOT_A_NUMBER.format(given=_format_value(score)))
    try:
        number = float(score)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(NOT_FINITE.format(given=_format_value(score)))
    return number


def _error(name: str, why: str) -> ProviderError:
    return ProviderError(ANSWER_FIELD.format(field=name, why=why), reason=BAD_ANSWER)


_KINDS: Final = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}


def _kind(given: Any) -> str:
    return _KINDS.get(type(given), "a number")


def _format_value(given: Any) -> str:
    if isinstance(given, str | int | float) and not isinstance(given, bool):
        return repr(given)[:40]
    return _kind(given)


def split_queries(text: str) -> tuple[str, ...]:
    """Split queries at semicolons outside of strings."""
    queries, start, quote, escaped = [], 0, "", False
    for index, char in enumerate(text):
        if quote:
            if escaped:
                escaped = False
            elif char == "\\" and quote != "`":
                escaped = True
            elif char == quote:
                quote = ""
        elif char in "\"'`":
            quote = char
        elif char == ";":
            queries.append(text[start:index])
            start = index + 1
    queries.append(text[start:])
    return tuple(query.strip() for query in queries if query.strip())
