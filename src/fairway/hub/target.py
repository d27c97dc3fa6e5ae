"""From a request's path and query to what it is aimed at."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from fairway.hub import status

_OF_NAMESPACES: Final = frozenset({"status", "finalize"})
"""What may follow the name of a namespace and isn't a resource inside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a path names. Without a ``plural`` it is a discovery document or no API resource at all (``group`` None)."""

    path: str
    group: str | None = None
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""
    watched: bool = False
    """A path of old, ``…/watch/…``: it asks for a watch whatever the query says, even of a single name."""


def parse(raw_path: str) -> Target:
    """Segments are split before they are unquoted, so an encoded slash can't change what is asked for."""
    path = raw_path.partition("?")[0]
    segments = [unquote(part) for part in path.strip("/").split("/")]
    if any(part in (".", "..") or "/" in part or "\\" in part or "\x00" in part for part in segments):
        raise status.bad_request(f"the path {path!r} has a segment that cannot be a name")
    if segments[0] == "api" and len(segments) >= 2:
        return _of_group(path, "", segments[1], segments[2:])
    if segments[0] == "apis" and len(segments) >= 3:
        return _of_group(path, segments[1], segments[2], segments[3:])
    return Target(path=path)


def _of_group(path: str, group: str, version: str, rest: Sequence[str]) -> Target:
    if not rest:
        return Target(path=path, group=group, version=version)
    if "" in rest:
        raise status.unknown_path()
    watched = rest[0] == "watch" and len(rest) > 1
    if watched:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in _OF_NAMESPACES):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        raise status.unknown_path()
    plural, name, subresource = (*rest, "", "")[:3]
    return Target(
        path=path,
        group=group,
        version=version,
        namespace=namespace,
        plural=plural,
        name=name,
        subresource=subresource,
        watched=watched,
    )
