"""Run one test over many recorded cases: hundreds of parameters would cost pytest more time than the cases take."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

SHOWN = 10


def every(
    name: str, cases: Iterable[Any] | Callable[[], Iterable[Any]], *, ids: Callable[[Any], object] = repr
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like ``pytest.mark.parametrize`` as one test, whose failure names every case that failed."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @wraps(test)
        def run(**fixtures: Any) -> None:
            given = tuple(cases() if callable(cases) else cases)
            assert given
            failed: list[tuple[object, BaseException]] = []
            for case in given:
                try:
                    test(**fixtures, **{name: case})
                except (Exception, pytest.fail.Exception) as error:
                    failed.append((ids(case), error))
            if failed:
                shown = "\n".join(f"{case}: {error}" for case, error in failed[:SHOWN])
                raise AssertionError(f"{len(failed)} of {len(given)} cases failed:\n{shown}") from failed[0][
                    1
                ]

        kept = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        vars(run)["__signature__"] = signature.replace(parameters=kept)
        return run

    return decorate
