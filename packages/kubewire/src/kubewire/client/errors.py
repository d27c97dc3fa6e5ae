"""Errors of the client.

Three branches, for three reactions: a user has to fix a ``ConfigError``, a ``TransportError`` is retried, and an
``ApiError`` is the hub's response, handled by its class. The classes are named like Kubernetes' reasons.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import ClassVar, Final

import msgspec
from msgspec import Struct, field

LONGEST_TEXT: Final = 500
"""Characters shown of a response that is not a Status, such as a proxy's error page."""

NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
"""The hub's cause for rejecting a create in a namespace that is being deleted."""

NO_MESSAGE: Final = "the server gave no reason"
REDIRECTED: Final = (
    "the server redirects, which the client does not follow, because it would send the credentials along"
)


class KubeError(Exception):
    """The base of all errors of this package. Never contains a secret."""

    retryable: ClassVar[bool] = False

    @property
    def is_race(self) -> bool:
        """Whether the object or its namespace was changed or deleted since it was read, so that a retry can succeed."""
        return False


class ConfigError(KubeError):
    """Invalid connection settings. ``place`` is a file or a variable."""

    def __init__(self, message: str, *, place: str = "", field: str = "", remedy: str = "") -> None:
        self.place, self.field, self.message, self.remedy = place, field, message, remedy
        text = ": ".join(part for part in (place, field, message) if part)
        super().__init__(f"{text}; {remedy}" if remedy else text)


class CredentialError(KubeError):
    """No credentials: a plugin failed, or a token file is missing. A retry may succeed."""

    retryable = True


class TransportError(KubeError):
    """No complete response. Unless ``sent`` is false, the hub may have processed the request."""

    retryable = True

    def __init__(self, message: str, *, sent: bool = True) -> None:
        self.sent = sent
        super().__init__(message)


class DeadlineExceeded(TransportError):
    """A request timed out, retries included."""


class UntrustedError(TransportError):
    """The server's certificate is not trusted. A retry does not help."""

    retryable = False


class ResponseTooLong(TransportError):
    """The response exceeds the client's limit. A retry does not help."""

    retryable = False


class UnreadableError(KubeError):
    """The response cannot be decoded as the requested kind."""


class StatusCause(Struct, frozen=True, kw_only=True, gc=False):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True, kw_only=True, gc=False):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after: int = field(default=0, name="retryAfterSeconds")
    """Seconds."""


class Status(Struct, frozen=True, kw_only=True, gc=False):
    """The response of Kubernetes where there is no object to return."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class ApiError(KubeError):
    """The hub rejected the request. ``retry_after`` is in seconds, and None if the hub sent none."""

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        reason: str = "",
        details: StatusDetails | None = None,
        retry_after: float | None = None,
        request: str = "",
    ) -> None:
        self.message, self.code, self.reason = message, code, reason
        self.details = details or StatusDetails()
        self.retry_after = retry_after
        self.request = request
        """Method and path, as in ``GET /api/v1/namespaces``."""
        answer = f"{code} {reason}".strip()
        super().__init__(": ".join(part for part in (request, answer, message) if part))

    def has_cause(self, reason: str) -> bool:
        return any(cause.reason == reason for cause in self.details.causes)

    @property
    def is_race(self) -> bool:
        return self.has_cause(NAMESPACE_TERMINATING)


class BadRequest(ApiError): ...


class Unauthorized(ApiError): ...


class Forbidden(ApiError): ...


class NotFound(ApiError):
    @property
    def is_race(self) -> bool:
        """Without a name in the details, the hub does not serve the kind."""
        return bool(self.details.name)


class MethodNotAllowed(ApiError): ...


class NotAcceptable(ApiError): ...


class AlreadyExists(ApiError):
    @property
    def is_race(self) -> bool:
        return True


class Conflict(ApiError):
    """Another client changed the object, or owns the field."""

    @property
    def is_race(self) -> bool:
        return True


class Expired(ApiError):
    """The requested resource version or continue token is older than the hub's history."""


class TooLarge(ApiError): ...


class UnsupportedMediaType(ApiError): ...


class Invalid(ApiError): ...


class TooManyRequests(ApiError):
    retryable = True


class ServerError(ApiError):
    """Any 5xx."""

    retryable = True

    @property
    def version_too_large(self) -> bool:
        """The requested resource version is newer than the hub's, whose history may have gone back."""
        return self.has_cause("ResourceVersionTooLarge") or "Too large resource version" in self.message


_BY_REASON: Final[Mapping[str, type[ApiError]]] = {"AlreadyExists": AlreadyExists, "Expired": Expired}
_BY_CODE: Final[Mapping[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    406: NotAcceptable,
    409: Conflict,
    410: Expired,
    413: TooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
}

_status: Final = msgspec.json.Decoder(Status)


def error_of(
    *, code: int, body: bytes = b"", headers: Mapping[str, str] | None = None, request: str = ""
) -> ApiError:
    """Convert an HTTP response, or the object of an ERROR event, to an error. With ``code`` 0 use the body's code."""
    try:
        status = _status.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        status = Status()
    if status.kind != "Status":
        redirected = 300 <= code < 400
        status = Status(message=REDIRECTED if redirected else _plain(body))
    code = code or status.code
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(code)
    if kind is None:
        kind = ServerError if code >= 500 else ApiError
    details = status.details
    after = retry_after(headers or {})
    if after is None and details is not None and details.retry_after > 0:
        after = float(details.retry_after)
    return kind(
        status.message or NO_MESSAGE,
        code=code,
        reason=status.reason,
        details=details,
        retry_after=after,
        request=request,
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from the header's number or date; a date is compared with the response's own, so clocks may differ."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    then = _date(text)
    if then is None:
        return None
    answered = _date(headers.get("Date", "")) or datetime.now(UTC)
    return max(0.0, (then - answered).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _plain(body: bytes) -> str:
    text = body[: 4 * LONGEST_TEXT].decode("utf-8", errors="replace")
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:LONGEST_TEXT]
