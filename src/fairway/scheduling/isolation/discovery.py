"""Find plugins that must not be imported in this process: a worker imports them, and lists their methods."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

from fairway.scheduling.isolation.wire import Describe, FileSource, PackageSource, Plugin
from fairway.scheduling.isolation.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """How a plugin with ``isolation: process`` runs. ``memory_limit`` is in bytes."""

    memory_limit: int | None = None


def file_source(path: Path, *, shown: str) -> FileSource:
    """``shown`` is the path for messages."""
    return FileSource(path=str(path), shown=shown)


def package_source(point: EntryPoint) -> PackageSource:
    return PackageSource(value=point.value)


def describe(source: FileSource | PackageSource, name: str = "") -> tuple[Plugin, ...]:
    """Return the plugins of a file, or that of an entry point with this name. Raises StartError."""
    worker = Worker()
    try:
        return worker.describe(Describe(source=source, name=name)).plugins
    finally:
        worker.stop()
