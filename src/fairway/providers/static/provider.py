"""The provider. A separate file with values is read again when it changes.

An invalid file, as while it is being edited, changes nothing: the last valid version is published, and the condition
names the invalid line.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from msgspec import field

from fairway.api.cluster import ManagedCluster
from fairway.providers.catalogue import Context, OptionsError
from fairway.providers.declared import ProviderEntry, ScoreEntry, convert_scores
from fairway.providers.document import INVALID, Document, DocumentError, Seconds, read
from fairway.providers.provider import FleetProvider, Reading, Scale, Score, Wake
from fairway.providers.scales import Direct, Inverted, Spread
from fairway.providers.static.declaration import FIELDS, Declaration, declaration_of
from kubewire.client.clock import SYSTEM_CLOCK, Clock

NAME: Final = "static"
BOTH: Final = "{field} and file exclude each other: keep one"
SHORTEST_CHECK: Final = 0.01
TOO_OFTEN: Final = f"must be at least {SHORTEST_CHECK:g}s"
KEPT: Final = "{error}; keeping the last valid version"
NO_CLUSTER: Final = "%s: there is no managed cluster %s"

UNITS: Final = {"cost": "per hour", "carbon": "gCO2e/kWh", "latency": "ms"}
"""Well-known scores and units. Low values are good; the scale ranges from the fleet's best to its worst."""

State = tuple[int, int, int]

_log = logging.getLogger(__name__)


class StaticScoreEntry(ScoreEntry, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    def default_scale(self) -> Scale:
        return Inverted(Spread()) if self.name in UNITS else Direct()

    def score(self, document: Document, *path: str | int) -> Score:
        made = super().score(document, *path)
        if made.unit or made.name not in UNITS:
            return made
        return replace(made, unit=UNITS[made.name])


class StaticEntry(ProviderEntry, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The fields of DeclarationEntry are validated there, and may be in a separate file."""

    scores: tuple[StaticScoreEntry, ...]
    file: str = ""
    clusters: Any = None
    groups: Any = None
    defaults: Any = None
    schedule: Any = None
    check_every: Seconds = field(default_factory=lambda: Seconds(1))


class Static(FleetProvider):
    """``file`` is None for inline values; ``seen`` is the file's state before it was read."""

    def __init__(
        self,
        *,
        name: str,
        resource: str,
        scores: tuple[Score, ...],
        interval: float,
        declaration: Declaration,
        file: Path | None = None,
        seen: "State | None" = None,
        check_every: float = 1.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.name, self.resource, self.scores, self.interval = name, resource, scores, interval
        self._declaration, self._file, self._clock = declaration, file, clock
        self._check_every = check_every
        self._seen = seen
        self._problem = ""
        self._unknown: frozenset[str] = frozenset()

    @asynccontextmanager
    async def running(self, wake: Wake, /) -> AsyncIterator[None]:
        if self._file is None:
            yield
            return
        watching = asyncio.create_task(self._watch(wake))
        try:
            yield
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def read(self, clusters: Mapping[str, ManagedCluster], /) -> Mapping[str, Reading]:
        await self._refresh()
        self._log_unknown(self._declaration.cluster_names().difference(clusters))
        now = self._clock.wall()
        readings = {}
        for name, cluster in clusters.items():
            values = self._declaration.values(cluster, now)
            if values:
                reason = INVALID if self._problem else ""
                readings[name] = Reading(values=values, problem=self._problem, reason=reason)
        return readings

    async def _watch(self, wake: Wake) -> None:
        while True:
            await asyncio.sleep(self._check_every)
            if await self._refresh():
                wake()

    async def _refresh(self) -> bool:
        """Return whether values or a problem changed."""
        if self._file is None:
            return False
        state = _state(self._file)
        if state == self._seen:
            return False
        # Stored before reading, so that a later write is read next time.
        self._seen = state
        try:
            document = await asyncio.to_thread(read, self._file)
            self._declaration = declaration_of(document, scores=[score.name for score in self.scores])
            self._problem = ""
        except DocumentError as error:
            self._problem = KEPT.format(error=error)
        return True

    def _log_unknown(self, unknown: frozenset[str]) -> None:
        for name in sorted(unknown - self._unknown):
            _log.warning(NO_CLUSTER, self.name, name)
        self._unknown = unknown


def _state(file: Path) -> State | None:
    """None if the file is missing. The inode detects a replaced file within one clock tick."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def create(options: Mapping[str, Any], context: Context) -> Static:
    """Catalogue factory. Raises OptionsError."""
    try:
        return _create(dict(options), context)
    except DocumentError as error:
        if error.place != context.name:  #  an error in the file of values
            raise OptionsError(str(error), field="file") from None
        raise OptionsError(error.message, field=error.field) from None


def _create(options: dict[str, Any], context: Context) -> Static:
    inline = {name: options[name] for name in FIELDS if name in options}
    document = Document(options, context.name)
    entry = document.convert(StaticEntry)
    name, resource = entry.names(document, default=NAME)
    scores = convert_scores(entry.scores, document, "scores")
    if entry.check_every < SHORTEST_CHECK:
        raise document.error(TOO_OFTEN, "checkEvery")
    values = Document(inline, context.name)
    file = seen = None
    if entry.file:
        if inline:
            raise document.error(BOTH.format(field=next(iter(inline))), "file")
        file = context.folder / Path(entry.file).expanduser()
        seen = _state(file)
        values = read(file)
    return Static(
        name=name,
        resource=resource,
        scores=scores,
        interval=float(entry.interval),
        declaration=declaration_of(values, scores=[score.name for score in scores]),
        file=file,
        seen=seen,
        check_every=float(entry.check_every),
        clock=context.clock,
    )
