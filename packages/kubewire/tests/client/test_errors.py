"""A hub's answers become errors that say what to do."""

import json
from typing import Any

import pytest

from kubewire.client import errors
from kubewire.client.errors import (
    AlreadyExists,
    ApiError,
    ConfigError,
    Conflict,
    Expired,
    KubeError,
    ServerError,
    TooManyRequests,
    error_of,
    retry_after,
)


def status(**fields: Any) -> bytes:
    return json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", **fields}).encode()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, errors.BadRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (405, errors.MethodNotAllowed),
        (406, errors.NotAcceptable),
        (409, errors.Conflict),
        (410, errors.Expired),
        (413, errors.TooLarge),
        (415, errors.UnsupportedMediaType),
        (422, errors.Invalid),
        (429, errors.TooManyRequests),
        (500, errors.ServerError),
        (503, errors.ServerError),
        (418, errors.ApiError),
    ],
)
def test_status_code_selects_the_error_class(code: int, kind: type[ApiError]) -> None:
    error = error_of(code=code, body=status(message="no", reason="R", code=code))
    assert type(error) is kind
    assert (error.code, error.reason, error.message) == (code, "R", "no")


def test_reason_selects_the_error_class_of_an_ambiguous_code() -> None:
    assert type(error_of(code=409, body=status(reason="AlreadyExists"))) is AlreadyExists
    assert type(error_of(code=409, body=status(reason="Conflict"))) is Conflict
    # An ERROR event has no HTTP code of its own.
    assert type(error_of(code=0, body=status(reason="Expired", code=410))) is Expired


def test_error_has_the_details_of_the_status() -> None:
    details = {
        "name": "p",
        "kind": "placements",
        "causes": [{"reason": "FieldValueInvalid", "field": "spec.x", "message": "bad"}],
        "retryAfterSeconds": 7,
    }
    error = error_of(code=422, body=status(message="bad", details=details), request="POST /x")
    assert error.details.name == "p"
    assert error.has_cause("FieldValueInvalid")
    assert not error.has_cause("Other")
    assert error.retry_after == 7
    assert str(error) == "POST /x: 422: bad"


def test_error_without_status_shows_its_text() -> None:
    page = b"<html>\n<h1>Bad \x1b[31mGateway</h1>" + b"x" * 10_000
    error = error_of(code=502, body=page)
    assert isinstance(error, ServerError)
    assert error.message.startswith("<html> <h1>Bad [31mGateway</h1>x")
    assert len(error.message) == errors.LONGEST_TEXT
    assert error_of(code=500, body=b"").message == errors.NO_MESSAGE
    assert error_of(code=500, body=b'{"kind":"Pod"}').message == '{"kind":"Pod"}'
    assert error_of(code=302, body=b"over there").message == errors.REDIRECTED


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "3"}, 3.0),
        ({"Retry-After": " 3 "}, 3.0),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "9" * 5000}, 999_999_999.0),
        ({"Retry-After": "Sun, 01 Mar 2026 12:00:30 GMT", "Date": "Sun, 01 Mar 2026 12:00:00 GMT"}, 30.0),
        ({"Retry-After": "Sun, 01 Mar 2026 11:00:00 GMT", "Date": "Sun, 01 Mar 2026 12:00:00 GMT"}, 0.0),
        ({"Retry-After": "Sun, 01 Mar 2020 11:00:00 GMT"}, 0.0),
    ],
)
def test_error_has_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_header_takes_precedence() -> None:
    body = status(details={"retryAfterSeconds": 9})
    assert error_of(code=429, body=body, headers={"Retry-After": "2"}).retry_after == 2.0


def test_too_large_resource_version_is_recognized() -> None:
    body = status(details={"causes": [{"reason": "ResourceVersionTooLarge"}]}, reason="Timeout")
    error = error_of(code=504, body=body)
    assert isinstance(error, ServerError)
    assert error.version_too_large
    assert not ServerError("other", code=504).version_too_large


def test_transient_errors_are_retriable() -> None:
    assert TooManyRequests("x").retryable
    assert ServerError("x").retryable
    assert not Conflict("x").retryable
    assert errors.TransportError("x").retryable
    assert not errors.UntrustedError("x").retryable
    assert not ConfigError("x").retryable


def test_config_error_names_file_field_and_remedy() -> None:
    error = ConfigError("is not base64", place="a/config", field="users[x].user.token", remedy="write it so")
    assert str(error) == "a/config: users[x].user.token: is not base64; write it so"
    assert isinstance(error, KubeError)
