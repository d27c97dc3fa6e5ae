"""Print a view once, or whenever it changes."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from fairway.cli.client.objects import listed, together
from fairway.cli.client.watch import ChangeSignal, Feed, following
from fairway.cli.get.objects import document_of, whole
from fairway.cli.get.view import Lines, Lot, View
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import Row, emit
from fairway.cli.text import say
from kubewire.api.meta import format_time
from kubewire.api.resource import Key, key_of
from kubewire.client import Added, Client, Deleted, Forbidden, NotFound, Resource, Updated
from kubewire.client.change import Change

GONE: Final = "(deleted)"
NO_CAUSES: Final = "fairway: causes of changes are not shown: {reason}"
ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
_AGE: Final = "age"
"""A column that changes constantly and is ignored when comparing rows."""


def _now() -> datetime:
    return datetime.now(UTC)


async def show(client: Client, view: View, output: OutputFormat) -> None:
    """Print once."""
    if output == "table":
        await _show_table(client, view)
    else:
        await _show_objects(client, view, output)
    sys.stdout.flush()


async def _show_table(client: Client, view: View) -> None:
    feeds = view.feeds()
    listings = await _all(client, feeds)
    shown = listings[: len(view.shown)]
    view.check({key for things in shown for thing in things for key in view.names_of(thing)})
    for things in listings:
        for thing in things:
            view.put(thing)
    now = _now()
    rows = [row for lot in view.lots() for row in view.rows(lot, now=now).values()]
    if not rows:
        say(view.nothing(), stream=sys.stderr)
        return
    if sys.stdout.isatty():
        emit(rows, columns=view.columns, less=view.less)
        return
    lines = Lines(view.columns)
    lines.fit(rows)
    say("\n".join((lines.header(), *map(lines.line, rows))))


async def _show_objects(client: Client, view: View, output: OutputFormat) -> None:
    feeds = [_whole(view.feed(resource)) for resource in view.shown]
    listings = await _all(client, feeds)
    view.check({key for things in listings for thing in things for key in view.names_of(thing)})
    documents = [
        document_of(thing, feed.resource)
        for feed, things in zip(feeds, listings, strict=True)
        for thing in sorted(things, key=key_of)
        if view.matches(thing)
    ]
    alone = len(view.wanted.names) == 1 and len(documents) == 1
    document = documents[0] if alone else {"apiVersion": "v1", "kind": "List", "items": documents}
    emit([], columns={}, output=output, document=document)


async def _all(client: Client, feeds: Sequence[Feed]) -> list[list[Any]]:
    return await together(
        listed(client, feed.resource, namespace=feed.namespace, labels=feed.labels, fields=feed.fields)
        for feed in feeds
    )


def _whole(feed: Feed) -> Feed:
    return replace(feed, resource=whole(feed.resource))


async def watch(client: Client, view: View, output: OutputFormat, *, events: bool) -> None:
    """Print changes until cancelled. With ``events``, each row or object has its watch event."""
    if output == "table":
        await _TableWatch(view, events=events).run(client)
    else:
        await _ObjectWatch(view, output, events=events).run(client)


class _TableWatch:
    def __init__(self, view: View, *, events: bool) -> None:
        self._view = view
        self._events = events
        timed = {"time": "Time"} if view.timed else {}
        columns = {**timed, **({"event": "Event"} if events else {}), **view.columns}
        self._lines = Lines(columns, less=view.less)
        self._printed: dict[Lot, dict[str, Row]] = {}
        self._changed_lots: dict[Lot, None] = {}
        """In the order of the changes."""
        self._names: set[Key] = set()
        self._has_header = False

    async def run(self, client: Client) -> None:
        async with self._following(client) as changes:
            self._view.check(self._names)
            self._changed_lots = dict.fromkeys(self._view.lots())
            while True:
                wait, due = self._view.due(now=_now())
                self._changed_lots |= dict.fromkeys(due)
                self._print()
                await changes.wait(wait)
                await asyncio.sleep(self._view.gather)

    @asynccontextmanager
    async def _following(self, client: Client) -> AsyncIterator[ChangeSignal]:
        feeds, causes = self._view.feeds(), self._view.cause_feeds()
        async with AsyncExitStack() as stack:
            try:
                # Causes first: if they are refused, the view has not received anything that a second try repeats.
                changes = await stack.enter_async_context(following(client, (*causes, *feeds), self._observe))
            except (Forbidden, NotFound) as error:
                if not causes:
                    raise
                self._view.names_causes = False
                changes = await stack.enter_async_context(following(client, feeds, self._observe))
                say(NO_CAUSES.format(reason=error), stream=sys.stderr)
            yield changes

    def _observe(self, change: Change[Any]) -> None:
        if isinstance(change, Added) and not self._has_header:
            self._names.update(self._view.names_of(change.object))
        self._changed_lots |= dict.fromkeys(self._view.apply_change(change))

    def _print(self) -> None:
        touched, self._changed_lots = self._changed_lots, {}
        changed = [change for lot in touched for change in self._changes(lot)]
        if not changed:
            return
        if not self._has_header:
            self._lines.fit(row for row, _ in changed)
            say(self._lines.header())
            self._has_header = True
        for row, note in changed:
            say(self._lines.line(row, note=note))
        sys.stdout.flush()

    def _changes(self, lot: Lot) -> Iterable[tuple[Row, str]]:
        before = self._printed.pop(lot, {})
        rows = self._view.rows(lot, now=_now())
        for name, row in rows.items():
            old = before.get(name)
            if old is None or _without_age(old) != _without_age(row):
                yield self._annotate(row, MODIFIED if old else ADDED)
        dropped = [row for name, row in before.items() if name not in rows]
        if dropped:
            for row in self._view.deleted(lot, dropped, now=_now()):
                yield self._annotate(row, DELETED)
        if rows:
            self._printed[lot] = dict(rows)

    def _annotate(self, row: Row, event: str) -> tuple[Row, str]:
        row = {"time": format_time(_now()), **row}
        if self._events:
            return {"event": event, **row}, ""
        return row, GONE if event == DELETED else ""


def _without_age(row: Row) -> dict[str, object]:
    return {key: value for key, value in row.items() if key != _AGE}


class _ObjectWatch:
    def __init__(self, view: View, output: OutputFormat, *, events: bool) -> None:
        self._view = view
        self._output = output
        self._events = events
        self._resources: dict[str, Resource[Any]] = {resource.kind: resource for resource in view.shown}
        self._pending: dict[tuple[str, Key], tuple[str, Any]] = {}
        self._names: set[Key] = set()
        self._started = False

    async def run(self, client: Client) -> None:
        feeds = [_whole(self._view.feed(resource)) for resource in self._view.shown]
        async with following(client, feeds, self._observe) as changes:
            self._view.check(self._names)
            self._pending = dict(sorted(self._pending.items()))
            while True:
                self._print()
                await changes.wait()

    def _observe(self, change: Change[Any]) -> None:
        match change:
            case Added(thing):
                event = ADDED
                if not self._started:
                    self._names.update(self._view.names_of(thing))
            case Updated(_, thing):
                event = MODIFIED
            case Deleted(thing):
                event = DELETED
        if not self._view.matches(thing):
            return
        place = (thing.kind, key_of(thing))
        # An object that was not printed yet stays ADDED.
        known = self._pending.pop(place, (event, None))[0]
        self._pending[place] = (ADDED if known == ADDED and event == MODIFIED else event, thing)

    def _print(self) -> None:
        pending, self._pending = self._pending, {}
        for (kind, _), (event, thing) in pending.items():
            document: object = document_of(thing, self._resources[kind])
            if self._events:
                document = {"type": event, "object": document}
            if self._output == "yaml" and self._started:
                say("---")
            emit([], columns={}, output=self._output, document=document)
            self._started = True
        self._started = True
        sys.stdout.flush()
