"""Options of the forecast provider."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct, field

from fairway.providers.catalogue import CATALOGUE, Context, OptionsError
from fairway.providers.declared import ProviderEntry
from fairway.providers.document import Document, DocumentError, Seconds, read
from fairway.providers.provider import FleetProvider, Score

NAME: Final = "forecast"
LEAST_SEASONS: Final = 3
"""Two to fit and one to test."""

UNKNOWN_PROVIDER: Final = "there is no provider {name!r}; valid are {known}"
NOT_OF_THE_HUB: Final = "{name} reads one cluster; a forecast needs a provider of the whole fleet"
ITSELF: Final = "a forecast cannot be based on a forecast"
BOTH: Final = "config and options exclude each other: keep one"
NO_SUCH_SCORE: Final = "{provider} has no score {name!r}; it has {known}"
FEW_SEASONS: Final = f"must be at least {LEAST_SEASONS}: two to fit, and one to test"
BAD_STEP: Final = "the season must be at least 4 steps, and a whole number of them"
BAD_HORIZON: Final = "must be at least one step, and at most one season"
FEW_KEPT: Final = "must be at least seasons"
BAD_ERROR: Final = "must be greater than 0"


class InnerEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    provider: str
    """Name in the catalogue."""
    config: str = ""
    options: dict[str, Any] = field(default_factory=dict)


class ForecastEntry(ProviderEntry, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    of: InnerEntry
    scores: tuple[str, ...] = ()
    """Scores of the inner provider; all if empty."""
    suffix: str = "Forecast"
    horizon: Seconds = field(default_factory=lambda: Seconds(3600))
    step: Seconds = field(default_factory=lambda: Seconds(900))
    season: Seconds = field(default_factory=lambda: Seconds(86400))
    seasons: int = LEAST_SEASONS
    """Recorded seasons required for a forecast."""
    keep: int = 7
    """Seasons to keep."""
    max_error: float = 0.25
    fallback: Literal["omit", "current"] = "omit"
    state: str = ""
    max_series: int = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastOptions:
    name: str
    resource: str
    interval: float
    inner: FleetProvider
    scores: tuple[Score, ...]
    names: Mapping[str, str]
    """Names of the forecasts by inner score."""
    horizon: float
    step: float
    season: int
    """In steps."""
    seasons: int
    keep: int
    max_error: float
    uses_current: bool
    state: Path | None
    max_series: int
    saves: bool = True
    """Whether to write the history to ``state``."""


def options_of(given: Mapping[str, Any], context: Context) -> ForecastOptions:
    """Raises DocumentError, or OptionsError of the inner provider."""
    document = Document(dict(given), context.name)
    entry = document.convert(ForecastEntry)
    name, resource = entry.names(document, default=NAME)
    steps = entry.season / entry.step if entry.step else 0.0
    if steps < 4 or abs(steps - round(steps)) > 1e-9:
        raise document.error(BAD_STEP, "season")
    if not entry.step <= entry.horizon <= entry.season:
        raise document.error(BAD_HORIZON, "horizon")
    if entry.seasons < LEAST_SEASONS:
        raise document.error(FEW_SEASONS, "seasons")
    if entry.keep < entry.seasons:
        raise document.error(FEW_KEPT, "keep")
    if not entry.max_error > 0 or not math.isfinite(entry.max_error):
        raise document.error(BAD_ERROR, "maxError")
    inner = _inner(entry.of, document, context)
    known = {score.name: score for score in inner.scores}
    for index, wanted in enumerate(entry.scores):
        if wanted not in known:
            words = NO_SUCH_SCORE.format(provider=inner.name, name=wanted, known=", ".join(known))
            raise document.error(words, "scores", index)
    names = {score: f"{score}{entry.suffix}" for score in entry.scores or known}
    return ForecastOptions(
        name=name,
        resource=resource,
        interval=float(entry.interval),
        inner=inner,
        scores=tuple(dataclasses.replace(known[old], name=new) for old, new in names.items()),
        names=names,
        horizon=float(entry.horizon),
        step=float(entry.step),
        season=round(steps),
        seasons=entry.seasons,
        keep=entry.keep,
        max_error=entry.max_error,
        uses_current=entry.fallback == "current",
        state=context.folder / Path(entry.state).expanduser() if entry.state else None,
        max_series=entry.max_series,
        saves=not context.dry_run,
    )


def _inner(entry: InnerEntry, document: Document, context: Context) -> FleetProvider:
    listed = CATALOGUE.get(entry.provider)
    if entry.provider == NAME:
        raise document.error(ITSELF, "of", "provider")
    if listed is None:
        known = ", ".join(sorted(name for name, listed in CATALOGUE.items() if listed.fleet and name != NAME))
        raise document.error(UNKNOWN_PROVIDER.format(name=entry.provider, known=known), "of", "provider")
    if not listed.fleet:
        raise document.error(NOT_OF_THE_HUB.format(name=entry.provider), "of", "provider")
    if entry.config and entry.options:
        raise document.error(BOTH, "of")
    options: Mapping[str, Any] = entry.options
    inside = dataclasses.replace(context, name=entry.provider)
    try:
        if entry.config:
            path = context.folder / Path(entry.config).expanduser()
            inside = dataclasses.replace(inside, folder=path.parent)
            options = read(path).convert(dict[str, Any])
        provider = listed.factory()(options, inside)
    except OptionsError as error:
        at = ("of", "config") if entry.config else ("of", "options")
        raise document.error(str(error), *at) from None
    except DocumentError as error:
        raise document.error(str(error), "of", "config") from None
    assert isinstance(provider, FleetProvider)
    return provider
