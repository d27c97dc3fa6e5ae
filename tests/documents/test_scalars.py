import math

import pytest

from fairway.documents.scalars import resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("on", True),
        ("off", False),
        ("No", False),
        ("y", "y"),
        ("0", 0),
        ("-17", -17),
        ("1_000", 1000),
        ("010", 8),
        ("0o10", 8),
        ("0x1F", 31),
        ("-0x10", -16),
        ("0b101", 5),
        ("09", 9),
        ("1e3", 1000),
        ("1.30", 1.3),
        ("2.0", 2),
        (".5", 0.5),
        ("1.", 1),
        ("1:30", "1:30"),
        ("1.31.7", "1.31.7"),
        ("16Gi", "16Gi"),
        ("500m", "500m"),
        ("-", "-"),
        (".", "."),
        ("+", "+"),
        ("0x", "0x"),
        ("-infra", "-infra"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        (".inf", math.inf),
        ("1" * 5000, "1" * 5000),
    ],
)
def test_an_unquoted_word_means_what_kubectl_reads(text: str, value: object) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)
