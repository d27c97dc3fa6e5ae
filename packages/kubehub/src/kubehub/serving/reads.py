"""Reads: get, list and watch, from memory."""

import asyncio
import base64
import contextlib
import random
import re
from collections.abc import AsyncGenerator, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from kubehub import selectors, status
from kubehub.flowcontrol.yielding import Yielder
from kubehub.json_decoder import decode_object as _decode
from kubehub.options import EXACT, Read
from kubehub.resource import Document, Resource
from kubehub.serialization import representation
from kubehub.serialization.representation import Representation
from kubehub.storage.store import Change, Item, Store, TooNew, TooOld

BOOKMARK_SECONDS: Final = 50.0
LAST_BOOKMARK_SECONDS: Final = 2.0
"""Seconds between the last bookmark and the end of a watch, so that a resumed watch starts close to the end."""
LONGEST_WATCH: Final = 3600
NOW: Final = -1
"""The revision in a continue token whose next page lists the current state."""
CHUNK: Final = 128 * 1024
"""Bytes of watch events that are encoded before they are sent."""
STEP: Final = 256
"""Objects that a watch filters before it yields."""
TOKEN: Final = "meta.k8s.io/v1"
BAD_TOKEN: Final = "invalid continue token: continue key is not valid: {}"
NO_REVISION: Final = f"incorrect encoded start resourceVersion (version {TOKEN})"
OTHER_TOKEN: Final = "server does not recognize this encoded version {}"

LIST_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
CONTINUE_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)

_FOREIGN: Final = re.compile(r"[^-_0-9A-Za-z]")
_AHEAD_SECONDS: Final = 3.0


class _Meta(msgspec.Struct, gc=False):
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class _ObjectLabels(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_labelled = msgspec.json.Decoder(_ObjectLabels).decode


class Selection:
    """The label and field selectors of a request, applied to encoded objects."""

    def __init__(self, resource: Resource, options: Read) -> None:
        self._labels = selectors.parse_labels(options.labels) if options.labels else None
        self._fields = selectors.parse_fields(options.fields, resource) if options.fields else None
        self.name = self._fields.name if self._fields else ""
        self.everything = self._labels is None and self._fields is None
        self._resource = resource

    def accepts_item(self, item: Item) -> bool:
        return (not self.name or item.key[2] == self.name) and self.accepts(item.raw)

    def accepts(self, raw: bytes, cache: dict[Hashable, Any] | None = None, slot: str = "") -> bool:
        """``cache`` has the result for this object that another watch with the same selectors computed, in its
        ``slot``."""
        if self.everything:
            return True
        if self._labels is not None:
            labels = None if cache is None else cache.get(slot)
            if labels is None:
                labels = _labelled(raw).metadata.labels
                if cache is not None:
                    cache[slot] = labels
            if not self._labels.matches(labels):
                return False
        # Field selectors use the names of the client's version, not those of the stored one.
        return self._fields is None or self._fields.matches(representation.decode(self._resource, raw))


class _Token(msgspec.Struct, rename={"revision": "rv", "start": "start", "api": "v"}):
    api: str
    revision: int
    start: str


def _encode_token(revision: int, last: tuple[str, str]) -> str:
    """``last``: namespace and name of the last object of the page."""
    token = _Token(api=TOKEN, revision=revision, start="/".join(last))
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode_token(text: str) -> tuple[int, tuple[str, str]]:
    raw = b""
    foreign = _FOREIGN.search(text)
    if foreign or len(text) % 4 == 1:
        at = foreign.start() if foreign else len(text) - 1
        raise status.bad_request(BAD_TOKEN.format(f"illegal base64 data at input byte {at}"))
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except ValueError as error:
        message = str(error)
        if raw[:1] not in (b"{", b""):
            message = f"invalid character '{chr(raw[0])}' looking for beginning of value"
        raise status.bad_request(BAD_TOKEN.format(message)) from error
    if token.api != TOKEN:
        raise status.bad_request(BAD_TOKEN.format(OTHER_TOKEN.format(token.api)))
    if token.revision == 0:
        raise status.bad_request(BAD_TOKEN.format(NO_REVISION))
    namespace, _, name = token.start.partition("/")
    return max(token.revision, NOW), (namespace, name)


async def _select(items: Sequence[Item], chosen: "Selection", limit: int | None = None) -> list[Item]:
    """Return the selected items, at most ``limit``."""
    yielder, selected = Yielder(), []
    for item in items:
        if chosen.accepts_item(item):
            selected.append(item)
            if len(selected) == limit:
                break
        await yielder.step()
    return selected


class Reader:
    def __init__(self, *, store: Store) -> None:
        self._store = store

    def get(self, resource: Resource, namespace: str, name: str) -> Item:
        item = self._store.get((resource.key, namespace if resource.namespaced else "", name))
        if item is None:
            raise status.not_found(resource.group, resource.plural, name)
        return item

    def size(self, resource: Resource, namespace: str, name: str) -> int:
        """Return the bytes of an object; 0 if it doesn't exist."""
        item = self._store.get((resource.key, namespace if resource.namespaced else "", name))
        return 0 if item is None else len(item.raw)

    async def listing(
        self, resource: Resource, namespace: str, options: Read, style: Representation
    ) -> bytes:
        items, metadata = await self.page(resource, namespace, options)
        yielder, parts = Yielder(), []
        for part in representation.encode_list_parts(resource, [item.raw for item in items], metadata, style):
            parts.append(part)
            await yielder.step()
        return b"".join(parts)

    async def page(
        self, resource: Resource, namespace: str, options: Read
    ) -> tuple[Sequence[Item], Document]:
        """Return the items of a list or of a collection to delete, and the metadata of the response."""
        chosen = Selection(resource, options)
        after: tuple[str, str] | None = None
        exact: int | None = None
        if options.continue_token:
            revision, after = _decode_token(options.continue_token)
            if options.revision not in ("", "0"):
                raise status.bad_request("specifying resource version is not allowed when using continue")
            exact = None if revision == NOW else revision
            await self._wait_for_revision(revision)
        elif options.revision not in ("", "0"):
            await self._wait_for_revision(int(options.revision))
            if options.match == EXACT or (options.limit and not options.match):
                exact = int(options.revision)
        items, revision, more, remaining = await self._page(
            resource, namespace, options, chosen, after, exact
        )
        metadata: Document = {"resourceVersion": str(revision)}
        if more:
            metadata["continue"] = _encode_token(revision, items[-1].key[1:])
            if chosen.everything:
                metadata["remainingItemCount"] = remaining
        return items, metadata

    async def _page(
        self,
        resource: Resource,
        namespace: str,
        options: Read,
        chosen: Selection,
        after: tuple[str, str] | None,
        exact: int | None,
    ) -> tuple[list[Item], int, bool, int]:
        # Version 0 accepts any state, so the hub serves the newest.
        # kube-apiserver ignores the limit of such a list, which its watch cache serves as a whole.
        limit = None if options.revision == "0" and not options.continue_token else options.limit or None
        try:
            listing = self._store.items(
                resource.key,
                namespace=namespace or None,
                after=after,
                limit=limit if chosen.everything else None,
                revision=exact,
            )
        except TooOld as error:
            if after is not None and options.continue_token:
                raise status.expired(CONTINUE_TOO_OLD, continue_token=_encode_token(NOW, after)) from error
            raise status.expired(LIST_TOO_OLD) from error
        if chosen.everything:
            return list(listing.items), listing.revision, listing.more, listing.remaining
        selected = await _select(listing.items, chosen, limit)
        behind = limit is not None and len(selected) == limit and selected[-1] is not listing.items[-1]
        return selected, listing.revision, behind, 0

    async def _wait_for_revision(self, revision: int) -> None:
        """Wait briefly for a revision that the client has seen elsewhere and this hub hasn't reached."""
        if revision <= self._store.revision:
            return
        try:
            async with asyncio.timeout(_AHEAD_SECONDS):
                await self._store.wait_for_revision(revision)
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
        self, resource: Resource, namespace: str, options: Read, style: Representation
    ) -> AsyncGenerator[bytes, None]:
        """Yield watch lines in chunks, as many as are available. Ends at the timeout of the request."""
        chosen = Selection(resource, options)
        loop = asyncio.get_running_loop()
        ends = loop.time() + (options.timeout or random.uniform(LONGEST_WATCH / 2, LONGEST_WATCH))
        lines = _Lines(resource, style, chosen)
        fresh = options.initial_events or (options.initial_events is None and options.revision in ("", "0"))
        try:
            if options.initial_events:
                await self._wait_for_revision(int(options.revision or 0))
            there: Sequence[Item] = ()
            start = int(options.revision or self._store.revision)
            if fresh:
                start = self._store.revision
                there = self._store.items(resource.key, namespace=namespace or None).items
            watch = self._store.watch(resource.key, namespace=namespace or None, since=start)
        except status.Refusal as refusal:
            yield lines.failure(refusal)
            return
        except TooOld as error:
            yield lines.failure(status.too_old(error.asked, error.oldest))
            return
        except TooNew as error:
            yield lines.failure(status.unknown_version(error.asked))
            return
        sent, yielder = start, Yielder()
        marked = _next_bookmark(loop.time(), ends)
        try:
            for chunk in lines.initial(there):
                if chunk:
                    yield chunk
                await yielder.step()
            # An idle watch must not keep a batch of changes in memory.
            there, chunk = (), b""
            if options.initial_events and options.bookmarks:
                yield lines.bookmark(start, initial=True)
            while loop.time() < ends:
                changes: Sequence[Change] = ()
                try:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout_at(min(marked, ends)):
                            changes = await watch.next()
                except TooOld as error:
                    yield lines.failure(status.too_old(error.asked, error.oldest))
                    return
                for chunk in lines.of(changes):
                    if chunk:
                        sent = changes[-1].revision
                        yield chunk
                    await yielder.step()
                chunk = b""
                if loop.time() >= marked:
                    marked = _next_bookmark(loop.time(), ends)
                    if options.bookmarks and watch.position > sent:
                        sent = watch.position
                        yield lines.bookmark(sent, initial=False)
        finally:
            watch.close()


def _next_bookmark(now: float, ends: float) -> float:
    last = ends - LAST_BOOKMARK_SECONDS
    return min(now + BOOKMARK_SECONDS, last) if now < last else now + BOOKMARK_SECONDS


class _Lines:
    """The lines of one watch. Plain lines are encoded once per change and shared by all watches."""

    def __init__(self, resource: Resource, style: Representation, chosen: Selection) -> None:
        self._resource, self._style, self._chosen = resource, style, chosen
        self._form = (resource.version, style)
        self._headed = False

    def line(self, type_: str, raw: bytes) -> bytes:
        headed, self._headed = not self._headed, True
        return representation.event(self._resource, type_, raw, self._style, headed=headed)

    def bookmark(self, revision: int, *, initial: bool) -> bytes:
        headed, self._headed = not self._headed, True
        return representation.bookmark(self._resource, revision, self._style, initial=initial, headed=headed)

    def failure(self, refusal: status.Refusal) -> bytes:
        return msgspec.json.encode({"type": "ERROR", "object": refusal.document()}) + b"\n"

    def initial(self, items: Sequence[Item]) -> Iterator[bytes]:
        """Yield the selected objects that exist when the watch starts."""
        accepts = self._chosen.accepts_item
        return _chunks(self.line("ADDED", item.raw) if accepts(item) else b"" for item in items)

    def of(self, changes: Sequence[Change]) -> Iterator[bytes]:
        if self._chosen.everything and self._style.kind != representation.TABLE:
            return _chunks(map(self._encode_shared, changes))
        return _chunks(map(self._encode_selected, changes))

    def _encode_shared(self, change: Change) -> bytes:
        line = change.forms.get(self._form)
        if line is None:
            line = representation.event(self._resource, change.type, change.raw, self._style)
            change.forms[self._form] = line
        return line

    def _encode_selected(self, change: Change) -> bytes:
        """Encode the event of a change; empty if no selector matches. An object that starts to match the selectors is
        added, one that ceases to match is deleted."""
        if self._chosen.name and change.key[2] != self._chosen.name:
            return b""
        if self._chosen.everything:
            return self.line(change.type, change.raw)
        forms = change.forms
        now = change.type != "DELETED" and self._chosen.accepts(change.raw, forms, "now")
        before = change.previous is not None and self._chosen.accepts(change.previous, forms, "before")
        if not now and not before:
            return b""
        type_ = "MODIFIED" if now and before else "ADDED" if now else "DELETED"
        if self._style.kind != representation.TABLE and type_ == change.type:
            return self._encode_shared(change)
        if type_ == "DELETED" and change.type != "DELETED" and change.previous is not None:
            return self.line(type_, _with_revision(change.previous, change.revision))
        return self.line(type_, change.raw)


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines into chunks of bounded size, so that slow clients don't hold much memory.

    Yields an empty chunk now and then while there are no lines, so that the caller can yield the event loop.
    """
    held: list[bytes] = []
    size = 0
    for count, line in enumerate(lines, start=1):
        held.append(line)
        size += len(line)
        if size >= CHUNK or count % STEP == 0:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _with_revision(raw: bytes, revision: int) -> bytes:
    document = _decode(raw)
    document["metadata"]["resourceVersion"] = str(revision)
    return msgspec.json.encode(document)
