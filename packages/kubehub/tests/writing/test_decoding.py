"""Unknown fields of a write: an error, a warning or nothing, depending on ``fieldValidation``."""

import pytest

from kubehub.options import Write
from kubehub.user import User
from kubehub.write_request import WriteRequest
from kubehub.writing.decoding import report_unknown

FAULTS = ['unknown field "a"', 'unknown field "b"']


@pytest.mark.parametrize(
    ("validation", "error", "warnings"),
    [
        ("Strict", 'strict decoding error: unknown field "a", unknown field "b"', []),
        ("Warn", "", FAULTS),
        ("Ignore", "", []),
    ],
)
def test_unknown_fields_follow_field_validation(validation: str, error: str, warnings: list[str]) -> None:
    request = WriteRequest(user=User(name="test"), options=Write(manager="test", validation=validation))
    assert (report_unknown(FAULTS, request), request.warnings) == (error, warnings)
    assert report_unknown([], request) == ""
