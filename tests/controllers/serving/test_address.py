"""Addresses as people write them."""

import pytest

from fairway.controllers.serving import Address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", Address(port=8080)),
        ("0.0.0.0:8080", Address(host="0.0.0.0", port=8080)),
        ("127.0.0.1:0", Address(host="127.0.0.1")),
        ("localhost:65535", Address(host="localhost", port=65535)),
        ("fairway.example.com:9443", Address(host="fairway.example.com", port=9443)),
        ("[::]:8080", Address(host="::", port=8080)),
        ("[::1]:8080", Address(host="::1", port=8080)),
    ],
)
def test_address_survives_a_round_trip(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


def test_off_disables_an_address() -> None:
    assert Address.parse("off") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "8080",
        "host",
        "host:",
        "host:x",
        ":65536",
        ":123456",
        "::1:8080",
        "[x]:1",
        "[]:1",
        "a b:1",
        "-:1",
        "h:-1",
    ],
)
def test_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address to listen on: write HOST:PORT"):
        Address.parse(text)
