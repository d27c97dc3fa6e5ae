import pytest

from kubewire.documents.scalars import resolve, resolve_core, resolve_null


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
        ("y", True),
        ("N", False),
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
        ("1e999", "1e999"),
        ("0X1F", 31),
        ("18446744073709551616", 18446744073709551616.0),
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
        ("1" * 5000, "1" * 5000),
    ],
)
def test_unquoted_scalar_resolves_like_kubectl(text: str, value: object) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            ("1", 1),
            ("-2", -2),
            ("1.5", 1.5),
            ("1e3", 1000),
            (".5", 0.5),
            ("010", 10),
            ("true", True),
            ("~", None),
        ),
        *((text, text) for text in ("22:00", "no", "yes", "on", "0x10", "1_000", "2026-03-02")),
    ],
)
def test_options_are_resolved_as_in_yaml_1_2(text: str, value: object) -> None:
    assert resolve_core(text) == value


def test_kubeconfig_scalars_stay_text() -> None:
    assert [resolve_null(text) for text in ("123", "true", "", "~")] == ["123", "true", None, None]
