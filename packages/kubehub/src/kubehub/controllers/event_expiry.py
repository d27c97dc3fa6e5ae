"""Deletes events an hour after their last write."""

import asyncio
from typing import Any, Final

from kubehub.controllers.controller import Controller, metadata_of
from kubehub.storage.store import Change, Key

EVENTS: Final = "events"
LIFETIME: Final = 3600.0


class EventExpiry(Controller[str]):
    """The hour starts when this process first sees an event, so a restart starts it again."""

    manager = "event-expiry"

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._seen: dict[Key, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def resync(self) -> None:
        for item in self.items(EVENTS):
            self._schedule(item.key)

    def on_change(self, change: Change) -> None:
        if change.key[0] == EVENTS:
            self._seen.pop(change.key, None)
            if change.type != "DELETED":
                self._schedule(change.key)

    def _schedule(self, key: Key) -> None:
        # Insertion order is the order of expiry.
        self._seen[key] = asyncio.get_running_loop().time() + LIFETIME
        self._arm()

    def _arm(self) -> None:
        if self._timer is None and self._seen:
            due = next(iter(self._seen.values()))
            self._timer = asyncio.get_running_loop().call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.enqueue(EVENTS)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await super().stop()

    async def reconcile(self, item: str) -> None:  # noqa: ARG002  # there is a single key
        now = asyncio.get_running_loop().time()
        due = []
        for key, moment in self._seen.items():
            if moment > now:
                break
            due.append(key)
        for key in due:
            stored = self.store.get(key)
            self._seen.pop(key, None)
            if stored is not None:
                await self.delete(key, uid=metadata_of(stored.raw).uid)
        self._arm()
