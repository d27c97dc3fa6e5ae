"""What a linter says: one thing that looks like a mistake, where it is, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from fairway.api.meta import ObjectMeta

Identity = tuple[str, str, str]
"""(kind, namespace, name)"""


class Severity(StrEnum):
    ERROR = "error"
    """It is refused, or it cannot choose anything."""
    WARNING = "warning"
    """It hardly does what was meant."""
    INFO = "info"
    """It does what it says, which may surprise."""

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return _ORDER.index(self)

    def reaches(self, least: "Severity") -> bool:
        return self.rank <= least.rank


_ORDER: Final = (Severity.ERROR, Severity.WARNING, Severity.INFO)


class Thing(Protocol):
    """What every Kubernetes object has."""

    @property
    def kind(self) -> str: ...
    @property
    def metadata(self) -> ObjectMeta: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``path`` is relative to the object. ``line`` counts from 1; 0 means that the place is not known."""

    rule: str
    severity: Severity
    kind: str
    namespace: str
    name: str
    path: str
    message: str
    remedy: str
    file: str = ""
    line: int = 0

    @property
    def identity(self) -> Identity:
        return (self.kind, self.namespace, self.name)

    @property
    def subject(self) -> str:
        """``Placement ns1/web``"""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.file and self.line else self.file


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of mistake. The summary says what is found, for the list of rules."""

    id: str
    severity: Severity
    summary: str

    def at(self, thing: Thing, path: str, message: str, remedy: str) -> Finding:
        kind, namespace, name = identity_of(thing)
        return Finding(
            rule=self.id,
            severity=self.severity,
            kind=kind,
            namespace=namespace,
            name=name,
            path=path,
            message=message,
            remedy=remedy,
        )


def identity_of(thing: Thing) -> Identity:
    return (thing.kind, thing.metadata.namespace, thing.metadata.name)


def error(rule: str, summary: str) -> Rule:
    return Rule(rule, Severity.ERROR, summary)


def warning(rule: str, summary: str) -> Rule:
    return Rule(rule, Severity.WARNING, summary)


def info(rule: str, summary: str) -> Rule:
    return Rule(rule, Severity.INFO, summary)
