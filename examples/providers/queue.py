"""How much room the queue of this cluster has: what waits in it is a file each in the folder `spool`."""

from pathlib import Path

from fairway.providers import Linear, provider


@provider(resource="queue-score", scores={"queueFree": Linear(0, 1000)}, interval=30)
def queue() -> dict[str, float]:
    waiting = len(list(Path("spool").iterdir()))
    return {"queueFree": 1000 - waiting}
