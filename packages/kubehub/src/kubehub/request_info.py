"""Parse a request's path into group, version, namespace, resource, name and subresource."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

_OF_NAMESPACES: Final = frozenset({"status", "finalize"})
"""Subresources of a namespace, as opposed to resources in it."""
_MAX_SEGMENTS: Final = 32
"""Valid paths are shorter; the rest is kept as one segment, which is no valid name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """What a path names. Without ``plural`` it is a discovery document, or no API path at all (``group`` None)."""

    path: str
    """Unquoted, as in rules for non-resource URLs."""
    group: str | None = None
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""
    watched: bool = False
    """A deprecated ``…/watch/…`` path: it is a watch for any query, even of a single name."""
    invalid: bool = False
    """No resource can have this path. Unauthorized clients get a 403, not a 404."""


def parse(raw_path: str) -> RequestInfo:
    """Parse a path. Segments are split before they are unquoted, so that an encoded slash can't change the target."""
    path = _strip_host(raw_path).partition("?")[0]
    segments = [unquote(part) for part in path.strip("/").split("/", _MAX_SEGMENTS)]
    whole = unquote(path)
    invalid = path.startswith("//") or any(map(_is_invalid_segment, segments))
    if segments[0] == "api" and len(segments) >= 2:
        return _parse_group(whole, "", segments[1], segments[2:], invalid=invalid)
    if segments[0] == "apis" and len(segments) >= 3:
        return _parse_group(whole, segments[1], segments[2], segments[3:], invalid=invalid)
    return RequestInfo(path=whole, invalid=invalid)


def _strip_host(raw_path: str) -> str:
    """Strip scheme and host, which clients send to a proxy."""
    scheme, separator, rest = raw_path.partition("://")
    if separator and scheme.lower() in ("http", "https"):
        return "/" + rest.partition("/")[2]
    return raw_path


def _is_invalid_segment(segment: str) -> bool:
    return segment in (".", "..") or "/" in segment or "\\" in segment or "\x00" in segment


def _parse_group(path: str, group: str, version: str, rest: Sequence[str], *, invalid: bool) -> RequestInfo:
    if not rest:
        return RequestInfo(path=path, group=group, version=version, invalid=invalid)
    invalid = invalid or "" in rest
    watched = rest[0] == "watch" and len(rest) > 1
    if watched:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in _OF_NAMESPACES):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    return RequestInfo(
        path=path,
        group=group,
        version=version,
        namespace=namespace,
        plural=plural,
        name=name,
        subresource=subresource,
        watched=watched,
        invalid=invalid or len(rest) > 3,
    )
