import pytest

from kubehub.go_format import format_number, format_value, json_text
from kubewire.api.selector import quote


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", '"plain"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("tab\tline\n", '"tab\\tline\\n"'),
        ("bell\x07null\x00del\x7f", '"bell\\anull\\x00del\\x7f"'),
        ("é 😀", '"é 😀"'),
        ("\u200b\U000e0001", '"\\u200b\\U000e0001"'),
    ],
)
def test_strings_are_quoted_as_in_go(text: str, written: str) -> None:
    assert quote(text) == written


@pytest.mark.parametrize(
    ("value", "written", "json"),
    [
        (0, "0", "0"),
        (-7, "-7", "-7"),
        (2**63 - 1, "9223372036854775807", "9223372036854775807"),
        (2**63, "9.223372036854776e+18", "9223372036854776000"),
        (1.0, "1", "1"),
        (0.5, "0.5", "0.5"),
        (1e20, "1e+20", "100000000000000000000"),
        (1e21, "1e+21", "1e+21"),
        (-2.5e30, "-2.5e+30", "-2.5e+30"),
        (0.0001, "0.0001", "0.0001"),
        (0.00001, "1e-05", "0.00001"),
        (1e-7, "1e-07", "1e-7"),
        (1_000_000.0, "1e+06", "1000000"),
        (123456789.5, "1.234567895e+08", "123456789.5"),
        (10**400, "+Inf", "+Inf"),
    ],
)
def test_numbers_are_formatted_as_in_go(value: float, written: str, json: str) -> None:
    assert format_number(value) == written
    assert json_text(value) == json


def test_other_values_are_printed_as_json_with_sorted_keys() -> None:
    assert json_text({"b": [1.0, None, True], "a": "<&>\u2028\x01\n"}) == (
        '{"a":"\\u003c\\u0026\\u003e\\u2028\\u0001\\n","b":[1,null,true]}'
    )
    assert [format_value(value) for value in ("a", 1.5, None, False, ["x"])] == [
        '"a"',
        "1.5",
        "null",
        "false",
        '["x"]',
    ]
