"""Apply objects of files over those of a hub, without writing.

Like kubectl apply, a file keeps labels and annotations that it does not mention, and the object's identity. Unlike
kubectl apply, a status in a file is used, so that a what-if can set resources and scores.
"""

from collections import Counter
from typing import Any

from msgspec import structs

from fairway.api.kinds import KubeObject
from fairway.cli.files.loader import LoadedObject, LoadedObjects
from fairway.whatif.fleet.changes import identity


def over(hub: LoadedObjects, files: LoadedObjects) -> LoadedObjects:
    known = {identity(loaded.object): loaded.object for loaded in hub}
    applied = tuple(
        LoadedObject(applied_to(known.get(identity(file.object)), file.object), file.origin) for file in files
    )
    replaced = {identity(file.object) for file in files}
    kept = tuple(loaded for loaded in hub if identity(loaded.object) not in replaced)
    return LoadedObjects(objects=kept + applied, ignored=dict(Counter(hub.ignored) + Counter(files.ignored)))


def applied_to(existing: KubeObject | None, written: KubeObject) -> KubeObject:
    """Return the object after applying ``written`` over ``existing``."""
    if existing is None:
        return written
    mine, theirs = written.metadata, existing.metadata
    metadata = structs.replace(
        theirs,
        labels={**theirs.labels, **mine.labels},
        annotations={**theirs.annotations, **mine.annotations},
    )
    changes: dict[str, Any] = {"metadata": metadata}
    # Some kinds have no status.
    status = getattr(written, "status", None)
    if status is not None and status == type(status)():
        changes["status"] = getattr(existing, "status", status)
    return structs.replace(written, **changes)
