"""Reading objects: get, list and watch, from memory."""

import asyncio
import base64
import contextlib
import random
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from fairway.hub import form, selection, status
from fairway.hub.form import Form
from fairway.hub.options import EXACT, Read
from fairway.hub.resource import Document, Resource
from fairway.hub.store import Change, Item, Store, TooOld

BOOKMARK_SECONDS: Final = 50.0
FAREWELL_SECONDS: Final = 2.0
"""A bookmark comes that long before the end of a watch, so that whoever resumes it needs to be told little."""
LONGEST_WATCH: Final = 3600
NOW: Final = -1
"""The revision in the token of a list that goes on with what is there by then."""

LIST_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
CONTINUE_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)

_FOREIGN: Final = re.compile(r"[^-_0-9A-Za-z]")
_AHEAD_SECONDS: Final = 3.0
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class _Meta(msgspec.Struct, gc=False):
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class _Labelled(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_labelled = msgspec.json.Decoder(_Labelled).decode


class Selection:
    """The label and field selectors of one request, asked of encoded objects."""

    def __init__(self, resource: Resource, options: Read) -> None:
        self._labels = selection.labels(options.labels) if options.labels else None
        self._fields = selection.fields(options.fields, resource) if options.fields else None
        self.name = self._fields.name if self._fields else ""
        self.everything = self._labels is None and self._fields is None
        self._resource = resource

    def accepts(self, raw: bytes) -> bool:
        if self.everything:
            return True
        if self._labels is not None and not self._labels.matches(_labelled(raw).metadata.labels):
            return False
        # Fields are called what the version calls them, not as the store does.
        return self._fields is None or self._fields.matches(form.decode(self._resource, raw))


class _Token(msgspec.Struct, rename={"revision": "rv", "start": "start", "api": "v"}):
    api: str
    revision: int
    start: str


def _continue(revision: int, last: tuple[str, str]) -> str:
    """``last``: namespace and name of what ended the page."""
    token = _Token(api="meta.k8s.io/v1", revision=revision, start="/".join(last))
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _continued(text: str) -> tuple[int, tuple[str, str]]:
    raw = b""
    foreign = _FOREIGN.search(text)
    if foreign or len(text) % 4 == 1:
        at = foreign.start() if foreign else len(text) - 1
        raise status.bad_request(
            f"invalid continue token: continue key is not valid: illegal base64 data at input byte {at}"
        )
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except ValueError as error:
        told = str(error)
        if raw[:1] not in (b"{", b""):
            told = f"invalid character '{chr(raw[0])}' looking for beginning of value"
        raise status.bad_request(f"invalid continue token: continue key is not valid: {told}") from error
    namespace, _, name = token.start.partition("/")
    return token.revision, (namespace, name)


class Reader:
    def __init__(self, *, store: Store) -> None:
        self._store = store

    def get(self, resource: Resource, namespace: str, name: str) -> Item:
        item = self._store.get((resource.key, namespace if resource.namespaced else "", name))
        if item is None:
            raise status.not_found(resource.group, resource.plural, name)
        return item

    @property
    def revision(self) -> int:
        return self._store.revision

    def chosen(self, resource: Resource, namespace: str, options: Read) -> Sequence[Item]:
        """What a deletion of a collection is about."""
        chosen = Selection(resource, options)
        items = self._store.items(resource.key, namespace=namespace or None).items
        return [item for item in items if chosen.accepts(item.raw)]

    async def listing(self, resource: Resource, namespace: str, options: Read, style: Form) -> bytes:
        chosen = Selection(resource, options)
        after: tuple[str, str] | None = None
        exact: int | None = None
        if options.continue_token:
            revision, after = _continued(options.continue_token)
            if options.revision not in ("", "0"):
                raise status.bad_request("specifying resource version is not allowed when using continue")
            exact = None if revision == NOW else revision
        elif options.revision not in ("", "0"):
            await self._reach(int(options.revision))
            if options.match == EXACT or (options.limit and not options.match):
                exact = int(options.revision)
        items, revision, more, remaining = self._page(resource, namespace, options, chosen, after, exact)
        metadata: Document = {"resourceVersion": str(revision)}
        if resource.custom and style.kind == form.PLAIN:
            metadata = {"continue": "", **metadata}  # lists of custom resources always have it
        if more:
            metadata["continue"] = _continue(revision, items[-1].key[1:])
            if chosen.everything:
                metadata["remainingItemCount"] = remaining
        return form.many(resource, [item.raw for item in items], metadata, style)

    def _page(
        self,
        resource: Resource,
        namespace: str,
        options: Read,
        chosen: Selection,
        after: tuple[str, str] | None,
        exact: int | None,
    ) -> tuple[list[Item], int, bool, int]:
        # Version 0 is for who takes what is at hand, which is everything.
        limit = None if options.revision == "0" and not options.continue_token else options.limit or None
        found: list[Item] = []
        while True:
            try:
                listing = self._store.items(
                    resource.key, namespace=namespace or None, after=after, limit=limit, revision=exact
                )
            except TooOld as error:
                if after is not None and options.continue_token:
                    raise status.expired(CONTINUE_TOO_OLD, continue_token=_continue(NOW, after)) from error
                raise status.expired(LIST_TOO_OLD) from error
            kept = [item for item in listing.items if chosen.accepts(item.raw)]
            if limit is None:
                return kept, listing.revision, False, 0
            exact = listing.revision
            for index, item in enumerate(kept):
                found.append(item)
                if len(found) == limit:
                    behind = listing.more or index + 1 < len(kept)
                    return found, listing.revision, behind, listing.remaining
            if not listing.more:
                return found, listing.revision, False, 0
            last = listing.items[-1].key
            after = (last[1], last[2])

    async def _reach(self, revision: int) -> None:
        """Wait a little for a revision the client has seen somewhere and this hub hasn't yet."""
        if revision <= self._store.revision:
            return
        try:
            async with asyncio.timeout(_AHEAD_SECONDS):
                await self._store.reached(revision)
        except TimeoutError:
            raise status.Refusal(
                code=504,
                reason="Timeout",
                message=f"Timeout: Too large resource version: {revision}, current: {self._store.revision}",
                details={
                    "causes": [
                        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
                    ],
                    "retryAfterSeconds": 1,
                },
                headers={"Retry-After": "1"},
            ) from None

    async def watch(
        self, resource: Resource, namespace: str, options: Read, style: Form
    ) -> AsyncIterator[bytes]:
        """Lines in chunks, as many at once as there are. Ends at the timeout the client asked for."""
        chosen = Selection(resource, options)
        loop = asyncio.get_running_loop()
        ends = loop.time() + (options.timeout or random.uniform(LONGEST_WATCH / 2, LONGEST_WATCH))
        lines = _Lines(resource, style, chosen)
        fresh = options.initial_events or (options.initial_events is None and options.revision in ("", "0"))
        try:
            if options.initial_events:
                await self._reach(int(options.revision or 0))
            if fresh:
                listing = self._store.items(resource.key, namespace=namespace or None)
                start = listing.revision
                initial = [lines.line("ADDED", i.raw) for i in listing.items if chosen.accepts(i.raw)]
                if options.initial_events and options.bookmarks:
                    initial.append(lines.bookmark(start, initial=True))
                if initial:
                    yield b"".join(initial)
            else:
                start = int(options.revision or self._store.revision)
            watch = self._store.watch(resource.key, namespace=namespace or None, since=start)
        except status.Refusal as refusal:
            yield lines.failure(refusal)
            return
        except TooOld as error:
            yield lines.failure(status.too_old(error.asked, error.oldest))
            return
        told = start
        marked = _next_bookmark(loop.time(), ends)
        try:
            while loop.time() < ends:
                changes: Sequence[Change] = ()
                try:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout_at(min(marked, ends)):
                            changes = await watch.next()
                except TooOld as error:
                    yield lines.failure(status.too_old(error.asked, error.oldest))
                    return
                if chunk := lines.of(changes):
                    told = changes[-1].revision
                    yield chunk
                if loop.time() >= marked:
                    marked = _next_bookmark(loop.time(), ends)
                    if options.bookmarks and watch.position > told:
                        told = watch.position
                        yield lines.bookmark(told, initial=False)
        finally:
            watch.close()


def _next_bookmark(now: float, ends: float) -> float:
    farewell = ends - FAREWELL_SECONDS
    return min(now + BOOKMARK_SECONDS, farewell) if now < farewell else now + BOOKMARK_SECONDS


class _Lines:
    """The lines of one watch. Plain lines are made once per change and shared by all watches."""

    def __init__(self, resource: Resource, style: Form, chosen: Selection) -> None:
        self._resource, self._style, self._chosen = resource, style, chosen
        self._form = (resource.version, style)
        self._headed = False

    def line(self, type_: str, raw: bytes) -> bytes:
        headed, self._headed = not self._headed, True
        return form.event(self._resource, type_, raw, self._style, headed=headed)

    def bookmark(self, revision: int, *, initial: bool) -> bytes:
        headed, self._headed = not self._headed, True
        return form.bookmark(self._resource, revision, self._style, initial=initial, headed=headed)

    def failure(self, refusal: status.Refusal) -> bytes:
        return msgspec.json.encode({"type": "ERROR", "object": refusal.document()}) + b"\n"

    def of(self, changes: Sequence[Change]) -> bytes:
        if self._chosen.everything and self._style.kind != form.TABLE:
            return b"".join([self._shared(change) for change in changes])
        return b"".join([line for change in changes if (line := self._selected(change))])

    def _shared(self, change: Change) -> bytes:
        line = change.forms.get(self._form)
        if line is None:
            line = form.event(self._resource, change.type, change.raw, self._style)
            change.forms[self._form] = line
        return line

    def _selected(self, change: Change) -> bytes:
        """An object that comes to match a selector is added, one that ceases to is deleted."""
        if self._chosen.name and change.key[2] != self._chosen.name:
            return b""
        if self._chosen.everything:
            return self.line(change.type, change.raw)
        now = change.type != "DELETED" and self._chosen.accepts(change.raw)
        before = change.previous is not None and self._chosen.accepts(change.previous)
        if not now and not before:
            return b""
        type_ = "MODIFIED" if now and before else "ADDED" if now else "DELETED"
        if self._style.kind != form.TABLE and type_ == change.type:
            return self._shared(change)
        if type_ == "DELETED" and change.type != "DELETED" and change.previous is not None:
            return self.line(type_, _revised(change.previous, change.revision))
        return self.line(type_, change.raw)


def _revised(raw: bytes, revision: int) -> bytes:
    document = _decode(raw)
    document["metadata"]["resourceVersion"] = str(revision)
    return msgspec.json.encode(document)
