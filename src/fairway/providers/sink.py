"""Where publications are stored. The runner decides what to write and when; a sink knows how.

Placements read ``AddOnPlacementScores``. Another sink is a class with the same four methods.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from fairway.kube import ApiError, CredentialError, Forbidden, KubeError, NotFound, Unauthorized
from fairway.kube.errors import NAMESPACE_TERMINATING
from fairway.providers.publication import Publication

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
FAIRWAY: Final = "fairway"
PROVIDER: Final = "fairway.dev/provider"
"""The label with the name of the provider."""

SILENT: Final = "fairway.dev/Silent"
"""The condition of scores that were declared silent by whoever looks after the hub."""

DETACHED: Final = "the hub has no namespace {namespace}: the cluster is not registered there, or no longer"
NOT_SERVED: Final = "the hub does not serve the score kind: {error}; are OCM's CRDs installed?"
REFUSED: Final = "the hub refuses: {error}"
NOBODYS: Final = "was not created by Fairway"
ANOTHERS: Final = "belongs to the provider {provider!r}"

_Result = TypeVar("_Result")


class SinkError(Exception):
    """A publication was not stored. ``reason`` is one word, for figures; ``after`` the seconds the hub asks to wait;
    ``race`` whether another client changed or deleted the object meanwhile."""

    reason: str = "Unavailable"

    def __init__(
        self, message: str, *, reason: str = "", after: float | None = None, race: bool = False
    ) -> None:
        super().__init__(message)
        self.reason = reason or type(self).reason
        self.after, self.race = after, race


class ForeignObject(SinkError):
    """The object is somebody else's."""

    reason = "Foreign"


class NamespaceMissing(SinkError):
    """There is no place for this cluster on the hub."""

    reason = "Detached"


class WriteRefused(SinkError):
    """We may not. The credentials were read anew before this was raised."""

    reason = "Forbidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPublication:
    """What a hub has for one cluster."""

    publication: Publication
    version: int = 0
    """The resource version, 0 if it is no number."""
    uid: str = ""
    missing: str = ""
    """What could not be stored in a second form, in words."""


class Sink(Protocol):
    """Of one provider."""

    async def find(self, cluster: str, /) -> StoredPublication | None:
        """What is there already; None for nothing. Raises SinkError, Foreign among them."""

    async def write(
        self, cluster: str, publication: Publication, /, *, held: StoredPublication | None
    ) -> StoredPublication:
        """``held`` is what was there when last seen. Raises SinkError."""

    async def remove(self, cluster: str, /) -> bool:
        """Whether there was something of ours to remove. Raises SinkError."""

    async def clusters(self) -> tuple[str, ...]:
        """All that something of ours is stored for. Raises SinkError."""


async def in_words(asking: Awaitable[_Result], *, cluster: str) -> _Result:
    """Turns what the hub or the way to it refuses into SinkErrors."""
    try:
        return await asking
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


def is_of(provider: str, labels: Mapping[str, str]) -> bool:
    return labels_of(provider).items() <= labels.items()


def whose(labels: Mapping[str, str]) -> str:
    """In words, of something that is not ours."""
    owner = labels.get(PROVIDER, "") if labels.get(MANAGED_BY) == FAIRWAY else ""
    return ANOTHERS.format(provider=owner) if owner else NOBODYS


def selector_of(provider: str) -> str:
    return ",".join(f"{key}={value}" for key, value in labels_of(provider).items())
