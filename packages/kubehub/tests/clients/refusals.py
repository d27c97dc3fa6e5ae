"""Rejections as clients report them, with the full response."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import pytest

PHRASES = {422: "Unprocessable Entity"}
"""The hub's messages; later Pythons have others."""


def status(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    """The whole body of a refusal."""
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return {**document, "details": details} if details else document


def absent(kind: str, name: str, *, group: str = "") -> dict[str, Any]:
    full = f"{kind}.{group}" if group else kind
    details = {"name": name, "kind": kind} | ({"group": group} if group else {})
    return status(404, "NotFound", f'{full} "{name}" not found', **details)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def stale(kind: str, name: str, *, group: str = "") -> dict[str, Any]:
    full = f"{kind}.{group}" if group else kind
    details = {"name": name, "kind": kind} | ({"group": group} if group else {})
    message = f'Operation cannot be fulfilled on {full} "{name}": {MODIFIED}'
    return status(409, "Conflict", message, **details)


@contextmanager
def refused(expected: dict[str, Any]) -> Iterator[None]:
    """For the official client, both kinds of it."""
    from clients.official import EXCEPTIONS

    with pytest.raises(EXCEPTIONS) as caught:
        yield
    code, error = expected["code"], caught.value
    assert json.loads(error.body) == expected
    assert error.status == code
    assert error.reason == PHRASES.get(code, HTTPStatus(code).phrase)
