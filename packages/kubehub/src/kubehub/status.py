"""Refusals: responses that are a ``Status``, with Kubernetes' codes, reasons and messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from kubehub.go_format import format_value
from kubewire.api.selector import quote

# Reasons of a single field, as in ``details.causes``.
INVALID: Final = "FieldValueInvalid"
REQUIRED: Final = "FieldValueRequired"
DUPLICATE: Final = "FieldValueDuplicate"
FORBIDDEN_FIELD: Final = "FieldValueForbidden"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
TOO_LONG: Final = "FieldValueTooLong"
TOO_MANY: Final = "FieldValueTooMany"
TYPE_INVALID: Final = "FieldValueTypeInvalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A fault of a field. ``message`` starts with the type of fault, as in ``Invalid value: "x": must be …``."""

    field: str
    reason: str
    message: str


def invalid_value(field: str, value: object, detail: str) -> Cause:
    return Cause(field=field, reason=INVALID, message=f"Invalid value: {format_value(value)}: {detail}")


def required(field: str, detail: str = "") -> Cause:
    return Cause(field=field, reason=REQUIRED, message=f"Required value{': ' + detail if detail else ''}")


def duplicate(field: str, value: object) -> Cause:
    return Cause(field=field, reason=DUPLICATE, message=f"Duplicate value: {format_value(value)}")


def forbidden_field(field: str, detail: str) -> Cause:
    return Cause(field=field, reason=FORBIDDEN_FIELD, message=f"Forbidden: {detail}")


@lru_cache(maxsize=64)  # a bounded set, whatever the number of values sent
def _join_supported(supported: tuple[str, ...]) -> str:
    return ", ".join(map(quote, supported))


def not_supported(field: str, value: object, supported: Sequence[str]) -> Cause:
    listed = _join_supported(tuple(supported))
    return Cause(
        field=field,
        reason=NOT_SUPPORTED,
        message=f"Unsupported value: {format_value(value)}"
        + (f": supported values: {listed}" if supported else ""),
    )


def type_invalid(field: str, value: object, detail: str) -> Cause:
    return Cause(field=field, reason=TYPE_INVALID, message=f"Invalid value: {format_value(value)}: {detail}")


def too_long(field: str, limit: int) -> Cause:
    unit = "byte" if limit == 1 else "bytes"
    return Cause(field=field, reason=TOO_LONG, message=f"Too long: may not be more than {limit} {unit}")


def too_many(field: str, actual: int, limit: int) -> Cause:
    unit = "item" if limit == 1 else "items"
    return Cause(
        field=field, reason=TOO_MANY, message=f"Too many: {actual}: must have at most {limit} {unit}"
    )


class Refusal(Exception):
    """Raised anywhere in the hub; the server sends it as the response."""

    def __init__(
        self,
        *,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.details, self.headers, self.metadata = details, dict(headers or {}), dict(metadata or {})

    def document(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if not self.reason:
            del status["reason"]
        if self.details is not None:
            status["details"] = dict(self.details)
        return status | {"code": self.code}


def group_resource(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def _details(group: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details | more


def not_found(group: str, resource: str, name: str) -> Refusal:
    return Refusal(
        code=404,
        reason="NotFound",
        message=f'{group_resource(group, resource)} "{name}" not found',
        details=_details(group, resource, name),
    )


def unknown_path() -> Refusal:
    return Refusal(
        code=404, reason="NotFound", message="the server could not find the requested resource", details={}
    )


def already_exists(group: str, resource: str, name: str) -> Refusal:
    return Refusal(
        code=409,
        reason="AlreadyExists",
        message=f'{group_resource(group, resource)} "{name}" already exists',
        details=_details(group, resource, name),
    )


CHANGED: Final = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(group: str, resource: str, name: str, detail: str = CHANGED) -> Refusal:
    return Refusal(
        code=409,
        reason="Conflict",
        message=f'Operation cannot be fulfilled on {group_resource(group, resource)} "{name}": {detail}',
        details=_details(group, resource, name),
    )


def forbidden(group: str, resource: str, name: str, detail: str) -> Refusal:
    quote = f' "{name}"' if name else ""
    return Refusal(
        code=403,
        reason="Forbidden",
        message=f"{group_resource(group, resource)}{quote} is forbidden: {detail}"
        if resource
        else f"forbidden: {detail}",
        details=_details(group, resource, name),
    )


def unauthorized() -> Refusal:
    return Refusal(code=401, reason="Unauthorized", message="Unauthorized")


def bad_request(message: str) -> Refusal:
    return Refusal(code=400, reason="BadRequest", message=message)


MAX_CAUSES: Final = 500
AND_MORE: Final = "and {} more"


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> Refusal:
    """Build a 422. A single cause is the message itself, several are listed in brackets, up to a limit."""
    left, causes = len(causes) - MAX_CAUSES, causes[:MAX_CAUSES]
    texts = [f"{c.field}: {c.message}" if c.field else c.message for c in causes]
    unique = list(dict.fromkeys(texts))
    if left > 0:
        unique.append(AND_MORE.format(left))
    message = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
    shown_kind = f"{kind}.{group}" if group else kind
    return Refusal(
        code=422,
        reason="Invalid",
        message=f'{shown_kind} "{name}" is invalid: {message}',
        details=_details(
            group,
            kind,
            name,
            causes=[{"reason": c.reason, "message": c.message, "field": c.field} for c in causes],
        ),
    )


def expired(message: str, *, continue_token: str = "") -> Refusal:
    """``continue_token`` continues the list with the current state."""
    metadata = {"continue": continue_token} if continue_token else {}
    return Refusal(code=410, reason="Expired", message=message, metadata=metadata)


def too_old(asked: int, oldest: int) -> Refusal:
    return expired(f"too old resource version: {asked} ({oldest})")


def unknown_version(asked: int) -> Refusal:
    """kube-apiserver waits instead, because another replica may be ahead."""
    return expired(f"resource version {asked} is not in this hub's history; list again")


def unsupported_verb(group: str, resource: str, verb: str) -> Refusal:
    return Refusal(
        code=405,
        reason="MethodNotAllowed",
        message=f"{verb} is not supported on resources of kind {quote(group_resource(group, resource))}",
        details=_details(group, resource, ""),
    )


def too_large(message: str) -> Refusal:
    return Refusal(code=413, reason="RequestEntityTooLarge", message=message)


def unsupported_media(message: str) -> Refusal:
    return Refusal(code=415, reason="UnsupportedMediaType", message=message)


def not_acceptable(message: str) -> Refusal:
    return Refusal(code=406, reason="NotAcceptable", message=message, details={})


def method_not_allowed(message: str) -> Refusal:
    return Refusal(code=405, reason="MethodNotAllowed", message=message)


def too_many_requests(message: str, *, retry_after: int) -> Refusal:
    """Zero seconds send no Retry-After."""
    return Refusal(
        code=429,
        reason="TooManyRequests",
        message=message,
        details={"retryAfterSeconds": retry_after} if retry_after else {},
        headers={"Retry-After": str(retry_after)} if retry_after else {},
    )


def internal(message: str) -> Refusal:
    return Refusal(
        code=500,
        reason="InternalError",
        message=f"Internal error occurred: {message}",
        details={"causes": [{"message": message}]},
    )


def unavailable(message: str) -> Refusal:
    return Refusal(code=503, reason="ServiceUnavailable", message=message, headers={"Retry-After": "1"})
