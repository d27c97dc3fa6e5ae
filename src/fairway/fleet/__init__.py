"""The fleet: what is known about every host, as columns."""

from fairway.fleet.fleet import Fleet
from fairway.fleet.snapshot import Snapshot

__all__ = ["Fleet", "Snapshot"]
