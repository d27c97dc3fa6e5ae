"""Kubernetes' URL functions.

Syntax and formatting follow Go's ``net/url``: an absolute URI or absolute path, percent-encoding checked per part, IPv6
hosts in brackets, numeric ports.
"""

from __future__ import annotations

import re
from functools import cache
from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from kubecel.declarations import Function, Library, Overload
from kubecel.errors import Failure
from kubecel.scalars import Opaque
from kubecel.types import BOOL, STRING, list_of, map_of, struct

URL_TYPE = struct("kubernetes.URL")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+\-.]*")
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})?")
_USER_INFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_PATH_SAFE = _UNRESERVED | frozenset("$&+,/:;=@")
_USER_SAFE = _UNRESERVED | frozenset("$&+,;=")
_HOST_SAFE = _UNRESERVED | frozenset("!$&'()*+,;=:[]<>\"")
_FRAGMENT_SAFE = _UNRESERVED | frozenset("$&+,/:;=?@")
# Accepted unescaped in a path, although the reference escapes them in its output.
_PATH_TOLERATED = frozenset("!'()*[]")
_FRAGMENT_TOLERATED = frozenset("!'()*")
_HOST_REFUSED = frozenset(" #%/?@\\^`{|}")


class UrlError(Exception):
    """The text is not a URL; the message has the reason."""


class Url(NamedTuple):
    """The parts of a URL, decoded as in the reference."""

    scheme: str
    opaque: str
    user: str | None
    password: str | None
    host: str
    path: str
    raw_path: str
    force_query: bool
    raw_query: str
    fragment: str
    raw_fragment: str
    omit_host: bool


class UrlValue(Opaque):
    __slots__ = ("text", "url")
    cel_type = URL_TYPE

    def __init__(self, url: Url) -> None:
        self.url = url
        self.text = unparse(url)

    def weight(self) -> int:
        return 4 + (len(self.text) >> 11)

    def equals(self, other: object) -> bool:
        if not isinstance(other, UrlValue):
            raise Failure("no such overload")
        return self.text == other.text


def parse(text: str, *, request: bool) -> Url:
    """Parse a URL; with ``request`` a request target, which is an absolute URI or path without fragment."""
    raw_fragment = ""
    if not request:
        text, _, raw_fragment = text.partition("#")
    url = _parse(text, request=request)
    if not raw_fragment:
        return url
    fragment = _unescape(raw_fragment, "fragment")
    kept = raw_fragment if _escape(fragment, _FRAGMENT_SAFE) != raw_fragment else ""
    return url._replace(fragment=fragment, raw_fragment=kept)


def _parse(raw: str, *, request: bool) -> Url:
    if _CONTROL.search(raw):
        raise UrlError("invalid control character in URL")
    if not raw and request:
        raise UrlError("empty url")
    if raw == "*":
        return Url("", "", None, None, "", "*", "", False, "", "", "", False)
    scheme, rest = _split_scheme(raw)
    scheme = scheme.lower()
    force_query, raw_query = False, ""
    if rest.endswith("?") and rest.count("?") == 1:
        force_query = True
        rest = rest[:-1]
    else:
        rest, _, raw_query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, rest, None, None, "", "", "", force_query, raw_query, "", "", False)
        if request:
            raise UrlError("invalid URI for request")
        segment = rest.partition("/")[0]
        if ":" in segment:
            raise UrlError("first path segment in URL cannot contain colon")
    user: str | None = None
    password: str | None = None
    host, omit_host = "", False
    if (scheme or (not request and not rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, password, host = _authority(authority)
    elif scheme and rest.startswith("/"):
        omit_host = True
    path = _unescape(rest, "path")
    kept = rest if _escape(path, _PATH_SAFE) != rest else ""
    return Url(scheme, "", user, password, host, path, kept, force_query, raw_query, "", "", omit_host)


def _split_scheme(raw: str) -> tuple[str, str]:
    scheme = _SCHEME.match(raw)
    if scheme is None:
        if raw.startswith(":"):
            raise UrlError("missing protocol scheme")
        return "", raw
    if raw[scheme.end() : scheme.end() + 1] == ":":
        return scheme.group(), raw[scheme.end() + 1 :]
    return "", raw


def _authority(text: str) -> tuple[str | None, str | None, str]:
    info, at, host = text.rpartition("@")
    host = _host(host)
    if not at:
        return None, None, host
    if not _USER_INFO.fullmatch(info):
        raise UrlError("net/url: invalid userinfo")
    name, colon, password = info.partition(":")
    user = _unescape(name, "user")
    return user, _unescape(password, "user") if colon else None, host


def _host(text: str) -> str:
    bracket = text.rfind("[")
    if bracket > 0:
        raise UrlError("invalid IP-literal")
    if bracket == 0:
        closing = text.rfind("]")
        if closing < 0:
            raise UrlError("missing ']' in host")
        _check_port(text[closing + 1 :])
        literal = text[:closing]
        zone = literal.find("%25")
        if zone >= 0:
            return (
                _unescape(literal[:zone], "host")
                + _unescape(literal[zone:], "zone")
                + _unescape(text[closing:], "host")
            )
        unescaped = _unescape(text, "host")
        if not _ipv6(unescaped[1 : unescaped.rfind("]")]):
            raise UrlError("invalid host")
        return unescaped
    colon = text.rfind(":")
    if colon >= 0:
        if text.find(":") != colon:
            # Older servers accept several colons outside brackets; the reference does not.
            raise UrlError(f"invalid port {text[text.find(':') :]!r} after host")
        _check_port(text[colon:])
    return _unescape(text, "host")


def _ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _check_port(port: str) -> None:
    if not port:
        return
    if port[0] != ":" or not (port[1:] == "" or (port[1:].isascii() and port[1:].isdigit())):
        raise UrlError(f"invalid port {port!r} after host")


def _unescape(text: str, mode: str) -> str:
    if mode in ("path", "fragment", "user") and "%" not in text:
        return text
    if mode == "query" and "%" not in text:
        return text.replace("+", " ")
    for escape in _ESCAPE.finditer(text):
        digits = escape.group(1)
        if digits is None:
            raise UrlError(f"invalid URL escape {text[escape.start() : escape.start() + 3]!r}")
        if mode == "host" and int(digits, 16) < 0x80 and escape.group() != "%25":
            raise UrlError(f"invalid URL escape {escape.group()!r}")
        if mode == "zone":
            code = int(digits, 16)
            if escape.group() != "%25" and code != 0x20 and chr(code) in _HOST_REFUSED:
                raise UrlError(f"invalid URL escape {escape.group()!r}")
    if mode in ("host", "zone"):
        for char in text:
            if char < "\x80" and char != "%" and char not in _HOST_SAFE:
                raise UrlError(f"invalid character {char!r} in host name")
    if mode == "query":
        text = text.replace("+", " ")
    if "%" not in text:
        return text
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")


def _escape(text: str, safe: frozenset[str]) -> str:
    if safe.issuperset(text):
        return text
    written = _written(safe)
    return "".join([written[byte] for byte in text.encode("utf-8", "surrogateescape")])


@cache
def _written(safe: frozenset[str]) -> tuple[str, ...]:
    """Return the escaped form of each byte, cached because there are few sets of safe characters."""
    return tuple([chr(byte) if chr(byte) in safe else f"%{byte:02X}" for byte in range(256)])


def escaped_path(url: Url) -> str:
    raw = url.raw_path
    if raw and _valid_encoded(raw, _PATH_SAFE | _PATH_TOLERATED):
        try:
            if _unescape(raw, "path") == url.path:
                return raw
        except UrlError:
            pass
    return "*" if url.path == "*" else _escape(url.path, _PATH_SAFE)


def _valid_encoded(text: str, allowed: frozenset[str]) -> bool:
    return all(char == "%" or char in allowed for char in text)


def unparse(url: Url) -> str:
    """Format a URL; equal URLs have equal text."""
    out = f"{url.scheme}:" if url.scheme else ""
    if url.opaque:
        out += url.opaque
    else:
        if url.scheme or url.host or url.user is not None:
            if url.omit_host and not url.host and url.user is None:
                pass
            elif url.host or url.path or url.user is not None:
                out += "//"
            if url.user is not None:
                out += _escape(url.user, _USER_SAFE)
                if url.password is not None:
                    out += ":" + _escape(url.password, _USER_SAFE)
                out += "@"
            out += _escape(url.host, _HOST_SAFE)
        path = escaped_path(url)
        if path and path[0] != "/" and url.host:
            out += "/"
        if not out and ":" in path.partition("/")[0]:
            out += "./"
        out += path
    if url.force_query or url.raw_query:
        out += "?" + url.raw_query
    if url.fragment:
        raw = url.raw_fragment
        valid = raw and _valid_encoded(raw, _FRAGMENT_SAFE | _FRAGMENT_TOLERATED)
        out += "#" + (raw if valid else _escape(url.fragment, _FRAGMENT_SAFE))
    return out


def _hostname_and_port(host: str) -> tuple[str, str]:
    name, port = host, ""
    colon = host.rfind(":")
    if colon >= 0 and (
        host[colon + 1 :] == "" or (host[colon + 1 :].isascii() and host[colon + 1 :].isdigit())
    ):
        name, port = host[:colon], host[colon + 1 :]
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


def query(raw: str) -> dict[str, object]:
    """Return parameters in the order of their first occurrence; pairs that cannot be decoded are skipped."""
    out: dict[str, list[object]] = {}
    for pair in raw.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, value = pair.partition("=")
        try:
            name, text = _unescape(key, "query"), _unescape(value, "query")
        except UrlError:
            continue
        out.setdefault(name, []).append(text)
    return dict(out)


def _to_url(text: str) -> object:
    try:
        parse(text, request=True)
        return UrlValue(parse(text, request=False))
    except UrlError as error:
        raise Failure(f'URL parse error during conversion from string: parse "{text}": {error}') from None


def _is_url(text: str) -> object:
    return valid_request_uri(text)


def valid_request_uri(text: str) -> bool:
    try:
        parse(text, request=True)
    except UrlError:
        return False
    return True


URLS = Library(
    "kubernetes.urls",
    (
        Function("url", (Overload("string_to_url", (STRING,), URL_TYPE, _to_url),)),
        Function("isURL", (Overload("is_url_string", (STRING,), BOOL, _is_url),)),
        Function(
            "getScheme",
            (Overload("url_get_scheme", (URL_TYPE,), STRING, lambda u: u.url.scheme, member=True),),
        ),
        Function(
            "getHost", (Overload("url_get_host", (URL_TYPE,), STRING, lambda u: u.url.host, member=True),)
        ),
        Function(
            "getHostname",
            (
                Overload(
                    "url_get_hostname",
                    (URL_TYPE,),
                    STRING,
                    lambda u: _hostname_and_port(u.url.host)[0],
                    member=True,
                ),
            ),
        ),
        Function(
            "getPort",
            (
                Overload(
                    "url_get_port",
                    (URL_TYPE,),
                    STRING,
                    lambda u: _hostname_and_port(u.url.host)[1],
                    member=True,
                ),
            ),
        ),
        Function(
            "getEscapedPath",
            (
                Overload(
                    "url_get_escaped_path", (URL_TYPE,), STRING, lambda u: escaped_path(u.url), member=True
                ),
            ),
        ),
        Function(
            "getQuery",
            (
                Overload(
                    "url_get_query",
                    (URL_TYPE,),
                    map_of(STRING, list_of(STRING)),
                    lambda u: query(u.url.raw_query),
                    member=True,
                ),
            ),
        ),
    ),
)
