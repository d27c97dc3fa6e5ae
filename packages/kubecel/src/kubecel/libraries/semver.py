"""Semantic versions."""

from __future__ import annotations

import re
from typing import NamedTuple

from kubecel.declarations import Function, Library, Overload
from kubecel.errors import NO_SUCH_OVERLOAD, Failure
from kubecel.scalars import UINT_MAX, Opaque
from kubecel.types import BOOL, INT, STRING, struct

SEMVER_TYPE = struct("kubernetes.Semver")

LEADING_ZERO = '{} must not contain leading zeroes "{}"'
TOO_LARGE = 'parsing "{}": value out of range'

_DIGITS = re.compile(r"[0-9]*")
_ALPHANUMERIC = re.compile(r"[0-9A-Za-z-]*")


class Version(NamedTuple):
    """A semantic version. ``prerelease`` has numbers as ints and names as strings."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...]


class VersionError(ValueError):
    """The text is not a semantic version; the message has the reason."""


class Semver(Opaque):
    __slots__ = ("version",)
    cel_type = SEMVER_TYPE

    def __init__(self, version: Version) -> None:
        self.version = version

    def weight(self) -> int:
        return 4 + len(self.version.prerelease) // 2

    def equals(self, other: object) -> bool:
        if not isinstance(other, Semver):
            raise Failure(NO_SUCH_OVERLOAD)
        return compare(self, other) == 0


def parse(text: str) -> Version:
    if not text:
        raise VersionError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise VersionError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "major")
    minor = _number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    patch_text, dash, prerelease = rest.partition("-")
    patch = _number(patch_text, "patch")
    identifiers = tuple([_identifier(part) for part in prerelease.split(".")]) if dash else ()
    if plus:
        for part in build.split("."):
            if not part:
                raise VersionError("Build meta data is empty")
            if not _ALPHANUMERIC.fullmatch(part):
                raise VersionError(f'Invalid character(s) found in build meta data "{part}"')
    return Version(major, minor, patch, identifiers)


def _number(text: str, name: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise VersionError(f'Invalid character(s) found in {name} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise VersionError(LEADING_ZERO.format(f"{name.capitalize()} number", text))
    if not text or len(text) > 20 or int(text) > UINT_MAX:
        raise VersionError(TOO_LARGE.format(text))
    return int(text)


def _identifier(text: str) -> int | str:
    if not text:
        raise VersionError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise VersionError(LEADING_ZERO.format("Numeric PreRelease version", text))
        if len(text) > 20 or int(text) > UINT_MAX:
            raise VersionError(TOO_LARGE.format(text))
        return int(text)
    if not _ALPHANUMERIC.fullmatch(text):
        raise VersionError(f'Invalid character(s) found in prerelease "{text}"')
    return text


def compare(left: Semver, right: Semver) -> int:
    a, b = left.version, right.version
    if a[:3] != b[:3]:
        return 1 if a[:3] > b[:3] else -1
    if not a.prerelease or not b.prerelease:
        return bool(b.prerelease) - bool(a.prerelease)
    for x, y in zip(a.prerelease, b.prerelease, strict=False):
        if x == y:
            continue
        if isinstance(x, int) and isinstance(y, int):
            return 1 if x > y else -1
        if isinstance(x, str) and isinstance(y, str):
            return 1 if x > y else -1
        # Numbers are lower than names.
        return -1 if isinstance(x, int) else 1
    return (len(a.prerelease) > len(b.prerelease)) - (len(a.prerelease) < len(b.prerelease))


def _to_semver(text: str) -> object:
    try:
        return Semver(parse(text))
    except VersionError as error:
        raise Failure(str(error)) from None


def _is_semver(text: str) -> object:
    try:
        parse(text)
    except VersionError:
        return False
    return True


def _signed(value: int) -> int:
    """Convert to signed: the reference stores unsigned parts and returns them as signed."""
    return value - (1 << 64) if value >= 1 << 63 else value


_PAIR = (SEMVER_TYPE, SEMVER_TYPE)

SEMVERS = Library(
    "kubernetes.Semver",
    (
        Function("semver", (Overload("string_to_semver", (STRING,), SEMVER_TYPE, _to_semver),)),
        Function("isSemver", (Overload("is_semver_string", (STRING,), BOOL, _is_semver),)),
        Function(
            "isGreaterThan",
            (Overload("semver_is_greater_than", _PAIR, BOOL, lambda a, b: compare(a, b) == 1, member=True),),
        ),
        Function(
            "isLessThan",
            (Overload("semver_is_less_than", _PAIR, BOOL, lambda a, b: compare(a, b) == -1, member=True),),
        ),
        Function("compareTo", (Overload("semver_compare_to", _PAIR, INT, compare, member=True),)),
        Function(
            "major",
            (Overload("semver_major", (SEMVER_TYPE,), INT, lambda v: _signed(v.version.major), member=True),),
        ),
        Function(
            "minor",
            (Overload("semver_minor", (SEMVER_TYPE,), INT, lambda v: _signed(v.version.minor), member=True),),
        ),
        Function(
            "patch",
            (Overload("semver_patch", (SEMVER_TYPE,), INT, lambda v: _signed(v.version.patch), member=True),),
        ),
    ),
)
