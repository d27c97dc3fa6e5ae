"""Sinks store publications. The runner decides what to write and when.

Placements read ``AddOnPlacementScores``. Any class with the same four methods is a sink.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from fairway.providers.publication import Publication
from kubewire.client import ApiError, CredentialError, Forbidden, KubeError, NotFound, Unauthorized
from kubewire.client.errors import NAMESPACE_TERMINATING

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
FAIRWAY: Final = "fairway"
PROVIDER: Final = "fairway.dev/provider"
"""Label with the name of the provider."""

SILENT: Final = "fairway.dev/Silent"
"""Condition of scores that the scores controller marked silent."""

DETACHED: Final = "the hub has no namespace {namespace}: the cluster is not registered there, or no longer"
NOT_SERVED: Final = "the hub does not serve the score kind: {error}; are OCM's CRDs installed?"
REFUSED: Final = "the hub refuses: {error}"
UNMANAGED: Final = "was not created by Fairway"
OTHER_PROVIDER: Final = "belongs to the provider {provider!r}"

_Result = TypeVar("_Result")


class SinkError(Exception):
    """A publication was not stored.

    ``reason`` is a word for metrics; ``after`` the seconds that the hub asks to wait; ``race`` whether another client
    changed or deleted the object meanwhile.
    """

    reason: str = "Unavailable"

    def __init__(
        self, message: str, *, reason: str = "", after: float | None = None, race: bool = False
    ) -> None:
        super().__init__(message)
        self.reason = reason or type(self).reason
        self.after, self.race = after, race


class ForeignObject(SinkError):
    """The object belongs to another client."""

    reason = "Foreign"


class NamespaceMissing(SinkError):
    """The hub has no namespace for the cluster."""

    reason = "Detached"


class WriteRefused(SinkError):
    """Access denied, also with freshly read credentials."""

    reason = "Forbidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPublication:
    """The content of a hub for one cluster."""

    publication: Publication
    version: int = 0
    """Resource version; 0 if it is not a number."""
    uid: str = ""
    missing: str = ""
    """Error of a companion sink; empty if there is none."""


class Sink(Protocol):
    """Storage of one provider's publications."""

    async def find(self, cluster: str, /) -> StoredPublication | None:
        """Return the stored publication; None if there is none. Raises SinkError, also ForeignObject."""

    async def write(
        self, cluster: str, publication: Publication, /, *, stored: StoredPublication | None
    ) -> StoredPublication:
        """``stored`` is the last known stored publication. Raises SinkError."""

    async def remove(self, cluster: str, /) -> bool:
        """Return whether an own object was removed. Raises SinkError."""


async def as_sink_errors(request: Awaitable[_Result], *, cluster: str) -> _Result:
    """Convert errors of the hub and of the connection to SinkErrors."""
    try:
        return await request
    except NotFound as error:
        if error.details.kind == "namespaces":
            raise NamespaceMissing(DETACHED.format(namespace=cluster)) from error
        raise SinkError(NOT_SERVED.format(error=error), reason="NotFound") from error
    except (Unauthorized, Forbidden, CredentialError) as error:
        if isinstance(error, ApiError) and error.has_cause(NAMESPACE_TERMINATING):
            raise NamespaceMissing(DETACHED.format(namespace=cluster)) from error
        raise WriteRefused(REFUSED.format(error=error), reason=type(error).__name__) from error
    except ApiError as error:
        raise SinkError(
            str(error),
            reason=error.reason or type(error).__name__,
            after=error.retry_after,
            race=error.is_race,
        ) from error
    except KubeError as error:
        raise SinkError(str(error), reason=type(error).__name__) from error


def field_manager(provider: str) -> str:
    return f"fairway-provider-{provider}"


def labels_of(provider: str) -> dict[str, str]:
    return {MANAGED_BY: FAIRWAY, PROVIDER: provider}


def is_owned_by(provider: str, labels: Mapping[str, str]) -> bool:
    return labels_of(provider).items() <= labels.items()


def describe_owner(labels: Mapping[str, str]) -> str:
    """Describe the owner of a foreign object."""
    owner = labels.get(PROVIDER, "") if labels.get(MANAGED_BY) == FAIRWAY else ""
    return OTHER_PROVIDER.format(provider=owner) if owner else UNMANAGED


def selector_of(provider: str) -> str:
    return ",".join(f"{key}={value}" for key, value in labels_of(provider).items())
