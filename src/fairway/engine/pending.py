"""Answers of plugins that are not there yet.

A cycle is a pure function, so it cannot wait. A plugin whose answers come from elsewhere reads those that belong to the
cycle's snapshot, workload and time. Where one is missing it raises ``PendingAnswer``; the caller fetches it, and runs
the cycle again with the same three.
"""

from collections.abc import Awaitable, Callable


class PendingAnswer(Exception):
    """``fetch`` returns once the answer, or a fault, is there for the same snapshot, workload and time."""

    def __init__(self, plugin: str, fetch: Callable[[], Awaitable[None]]) -> None:
        super().__init__(f"plugin {plugin} has not answered yet")
        self.plugin = plugin
        self.fetch = fetch
