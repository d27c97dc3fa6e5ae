"""The Prometheus HTTP API, as far as scores need it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from fairway.providers.endpoint import REFUSED, TIMEOUT, UNAVAILABLE, Endpoint
from fairway.providers.prometheus.reduction import Point
from fairway.providers.provider import ProviderError

QUERY_INVALID: Final = "QueryInvalid"
QUERY_FAILED: Final = "QueryFailed"
WRONG_TYPE: Final = "QueryOfWrongType"
INCOMPLETE: Final = "AnswerIncomplete"
UNREADABLE: Final = "AnswerUnreadable"

SAYS: Final = "Prometheus returned an error: {error}"
NO_CLUSTERS: Final = (
    "the query returns a {kind} without clusters: write one that returns a vector, "
    "such as sum by (cluster) (...)"
)
RANGE_VECTOR: Final = (
    "the query returns a range vector: remove the [...] at its end, put a function such as rate() around it, "
    "or write mode: range"
)
NOT_COMPLETE: Final = "the result is incomplete: {warnings}"
PARTIAL: Final = "the server marked it as partial"
NOT_UNDERSTOOD: Final = "{server} returned a response that is not from the Prometheus API: {why}"

_WITH_BODY: Final = frozenset({400, 404, 405, 422, 500, 502, 503, 504})
"""Statuses of Prometheus's own error responses."""

_ADVICE: Final = "PromQL info:"
"""Prefix of remarks about the query, which some versions put among the warnings."""

_REASONS: Final = {"bad_data": QUERY_INVALID, "execution": QUERY_FAILED, "timeout": TIMEOUT}


@dataclass(frozen=True, slots=True)
class Series:
    labels: Mapping[str, str]
    points: tuple[Point, ...]
    """At least one, in order of time."""

    def __str__(self) -> str:
        return "{" + ", ".join(f'{key}="{text}"' for key, text in sorted(self.labels.items())) + "}"


@dataclass(frozen=True, slots=True)
class Result:
    series: tuple[Series, ...]
    warnings: tuple[str, ...] = ()


class _Item(Struct):
    metric: dict[str, str]
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] = field(default_factory=list)


class _Data(Struct, rename="camel"):
    result_type: str
    result: Any


class _Answer(Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None
    is_partial: bool = False
    """Used by VictoriaMetrics instead of warnings."""


class Api:
    """``params`` are added to every request."""

    def __init__(self, endpoint: Endpoint, *, method: str = "POST", params: Mapping[str, str]) -> None:
        self._endpoint, self._method, self._params = endpoint, method, params

    async def instant(self, query: str) -> Result:
        """Query at the server's time. Raises ProviderError."""
        return await self._request("/api/v1/query", {"query": query}, wanted="vector")

    async def range(self, query: str, *, start: float, end: float, step: float) -> Result:
        """Raises ProviderError."""
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": _seconds(step)}
        return await self._request("/api/v1/query_range", {"query": query, **times}, wanted="matrix")

    async def _request(self, path: str, params: Mapping[str, str], *, wanted: str) -> Result:
        # The server should stop working when the client does not wait any more.
        sent = {**self._params, **params, "timeout": _seconds(self._endpoint.timeout)}
        if self._method == "GET":
            answer = await self._endpoint.request("GET", path, params=sent, accept=_WITH_BODY)
        else:
            answer = await self._endpoint.request("POST", path, form=sent, accept=_WITH_BODY)
        try:
            body = msgspec.convert(answer.value, _Answer)
            if body.status != "success" or body.data is None or answer.status >= 300:
                raise _error(body, answer.status)
            if body.data.result_type != wanted:
                raise _type_error(body.data.result_type)
            items = msgspec.convert(body.data.result, list[_Item])
            return Result(tuple(_series(item) for item in items), _warnings(body))
        except (msgspec.ValidationError, ValueError) as error:
            message = NOT_UNDERSTOOD.format(server=self._endpoint.server, why=error)
            raise ProviderError(message, reason=UNREADABLE) from None


def _warnings(body: _Answer) -> tuple[str, ...]:
    warnings = tuple(warning for warning in body.warnings or () if not warning.startswith(_ADVICE))
    return warnings or ((PARTIAL,) if body.is_partial else ())


def _seconds(duration: float) -> str:
    """Without a unit, because Prometheus accepts only integers before one."""
    return f"{duration:.3f}".rstrip("0").rstrip(".")


def _error(body: _Answer, status: int) -> ProviderError:
    reason = _REASONS.get(body.error_type) or (UNAVAILABLE if status >= 500 else REFUSED)
    error = body.error or body.error_type or f"status {status}"
    return ProviderError(SAYS.format(error=" ".join(error.split())[:1000]), reason=reason)


def _type_error(kind: str) -> ProviderError:
    words = RANGE_VECTOR if kind == "matrix" else NO_CLUSTERS.format(kind=kind)
    return ProviderError(words, reason=WRONG_TYPE)


def _series(item: _Item) -> Series:
    given = [item.value] if item.value is not None else item.values
    points = tuple((at, _number(text)) for at, text in given)
    if not points:
        raise ValueError(f"a series without a value: {item.metric}")
    return Series(item.metric, points)


def _number(text: str) -> float:
    """Parse NaN, +Inf and -Inf, but reject 1_000, which Python accepts."""
    if "_" in text:
        raise ValueError(f"{text!r} is not a number")
    number = float(text)
    return number if math.isfinite(number) else math.nan if math.isnan(number) else number
