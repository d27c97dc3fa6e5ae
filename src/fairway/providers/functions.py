"""Functions as providers, by a decorator.

A function may return values by score name, pairs, a Reading, or for a provider with one score just the number. It may
yield pairs, and it may be async. It may block, because it runs in its own thread.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from numbers import Real
from typing import Any, Final, Never, TypeVar

from fairway.api.cluster import ManagedCluster
from fairway.providers.definition import DefinitionError, check
from fairway.providers.message_format import describe
from fairway.providers.provider import (
    INTERVAL_SECONDS,
    ClusterProvider,
    FleetProvider,
    ProviderError,
    Reading,
    Scale,
    Score,
)
from fairway.providers.reading_check import BAD_RESULT, MOST_SCORES, reading_of

Scores = Mapping[str, Scale | Score] | Sequence[Score]
"""Scales or Scores by name, or a sequence of Scores."""
Function = Callable[..., Any]

BARE: Final = "@{decorator} needs scores: write @{decorator}(scores={{'queueFree': Linear(0, 1000)}})"
NOT_A_FUNCTION: Final = "@{decorator} belongs above a function, not {given!r}"
NO_ARGUMENTS: Final = (
    "provider {name}: the function must take no arguments; @fleet_provider is for all clusters"
)
ONE_ARGUMENT: Final = "provider {name}: the function must take one argument, the clusters of the hub by name"
NOT_SCORES: Final = "provider {name}: scores must be names with their scales, not {given!r}"
NOT_BY_CLUSTER: Final = "the provider returned {kind} instead of values by cluster"


class _FunctionProvider:
    """Common part of function providers. The function can still be called, for example in a test."""

    isolated = True

    def __init__(
        self, function: Function, *, name: str, resource: str, scores: tuple[Score, ...], interval: float
    ) -> None:
        self.name, self.resource, self.scores, self.interval = name, resource, scores, interval
        self.function = function
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __repr__(self) -> str:
        return f"<provider {self.name}>"

    def _reading(self, result: object) -> Reading:
        if isinstance(result, Real | Decimal) and len(self.scores) == 1:
            number: Any = result
            return Reading(values={self.scores[0].name: number})
        return reading_of(result)


class FunctionProvider(_FunctionProvider, ClusterProvider):
    async def read(self) -> Reading:
        return self._reading(await resolve(self.function()))


class FleetFunctionProvider(_FunctionProvider, FleetProvider):
    async def read(self, clusters: Mapping[str, ManagedCluster], /) -> Mapping[str, Reading | ProviderError]:
        result = await resolve(self.function(clusters))
        if not isinstance(result, Mapping):
            raise ProviderError(NOT_BY_CLUSTER.format(kind=type(result).__name__), reason=BAD_RESULT)
        return {cluster: self._to_reading(values) for cluster, values in result.items()}

    def _to_reading(self, values: object) -> Reading | ProviderError:
        """Convert one cluster's values; an error does not affect other clusters."""
        if isinstance(values, ProviderError):
            return values
        if isinstance(values, Exception):
            return ProviderError(describe(values))
        try:
            return self._reading(values)
        except ProviderError as error:
            return error
        except Exception as error:  # such as an unhashable name
            return ProviderError(describe(error), reason=BAD_RESULT)


_Kind = TypeVar("_Kind", FunctionProvider, FleetFunctionProvider)


def provider(
    *bare: Never,
    scores: Scores = (),
    name: str | None = None,
    resource: str | None = None,
    interval: float = INTERVAL_SECONDS,
) -> Callable[[Function], FunctionProvider]:
    """Make a provider of the local cluster from a function without arguments.

    ``name`` defaults to the function's name, ``resource`` to ``NAME-score``.
    """
    if bare:
        raise DefinitionError(BARE.format(decorator="provider"))

    def decorate(function: Function) -> FunctionProvider:
        called = _provider_name(function, name, decorator="provider")
        if not _accepts_arguments(function, 0):
            raise DefinitionError(NO_ARGUMENTS.format(name=called))
        return _create(FunctionProvider, function, called, resource, scores, interval)

    return decorate


def fleet_provider(
    *bare: Never,
    scores: Scores = (),
    name: str | None = None,
    resource: str | None = None,
    interval: float = INTERVAL_SECONDS,
) -> Callable[[Function], FleetFunctionProvider]:
    """Make a fleet provider from a function that takes clusters by name and returns values by name."""
    if bare:
        raise DefinitionError(BARE.format(decorator="fleet_provider"))

    def decorate(function: Function) -> FleetFunctionProvider:
        called = _provider_name(function, name, decorator="fleet_provider")
        if not _accepts_arguments(function, 1):
            raise DefinitionError(ONE_ARGUMENT.format(name=called))
        return _create(FleetFunctionProvider, function, called, resource, scores, interval)

    return decorate


def _create(
    kind: type[_Kind], function: Function, name: str, resource: str | None, scores: Scores, interval: float
) -> _Kind:
    resource = resource if resource is not None else f"{name}-score".lower()
    created = kind(function, name=name, resource=resource, scores=_to_scores(scores, name), interval=interval)
    check(created)
    return created


def _provider_name(function: object, name: str | None, *, decorator: str) -> str:
    if not callable(function) or isinstance(function, type):
        raise DefinitionError(NOT_A_FUNCTION.format(decorator=decorator, given=function))
    called: str = name if name is not None else getattr(function, "__name__", "")
    return called if name is not None else called.strip("_").replace("_", "-")


def _accepts_arguments(function: Function, count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a native function without a signature
        return True
    return True


def _to_scores(given: object, name: str) -> tuple[Score, ...]:
    if isinstance(given, Mapping):
        return tuple(
            replace(value, name=key) if isinstance(value, Score) else Score(name=key, scale=value)
            for key, value in given.items()
        )
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise DefinitionError(NOT_SCORES.format(name=name, given=given))
    return tuple(given)


async def resolve(result: Any) -> object:
    """Await or collect the result of an async function or generator; return other results unchanged."""
    if isinstance(result, AsyncIterator):
        pairs: list[object] = []
        async for pair in result:
            pairs.append(pair)
            if len(pairs) > MOST_SCORES:  # enough to reject it
                break
        return pairs
    return await result if isinstance(result, Awaitable) else result
