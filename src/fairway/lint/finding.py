"""Rules and findings: a probable mistake, its position, and the remedy."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from kubewire.api.meta import ObjectMeta

Identity = tuple[str, str, str]
"""(kind, namespace, name)"""


class Severity(StrEnum):
    ERROR = "error"
    """The object is rejected, or selects no cluster."""
    WARNING = "warning"
    """The object probably does not do what was intended."""
    INFO = "info"
    """The object is valid, but its effect may surprise."""

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return _ORDER.index(self)

    def reaches(self, least: "Severity") -> bool:
        return self.rank <= least.rank


_ORDER: Final = (Severity.ERROR, Severity.WARNING, Severity.INFO)


class LintedObject(Protocol):
    """The common part of Kubernetes objects."""

    @property
    def kind(self) -> str: ...
    @property
    def metadata(self) -> ObjectMeta: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``path`` is relative to the object. ``line`` counts from 1; 0 means unknown."""

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
    """A kind of mistake. The summary is for the list of rules."""

    id: str
    severity: Severity
    summary: str

    def at(self, obj: LintedObject, path: str, message: str, remedy: str) -> Finding:
        kind, namespace, name = identity_of(obj)
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


def identity_of(obj: LintedObject) -> Identity:
    return (obj.kind, obj.metadata.namespace, obj.metadata.name)


def error(rule: str, summary: str) -> Rule:
    return Rule(rule, Severity.ERROR, summary)


def warning(rule: str, summary: str) -> Rule:
    return Rule(rule, Severity.WARNING, summary)


def info(rule: str, summary: str) -> Rule:
    return Rule(rule, Severity.INFO, summary)
