"""The value of a literal token."""

from __future__ import annotations

import re

from kubecel.scalars import INT_MAX, INT_MIN, UINT_MAX, Uint

_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(
    r"\\(?:([xX])([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7][0-7])|(.))", re.DOTALL
)


def parse_int(text: str, *, negative: bool) -> int:
    value = _integer(text)
    if negative:
        value = -value
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("invalid int literal")
    return value


def parse_uint(text: str) -> Uint:
    value = _integer(text[:-1])
    if value > UINT_MAX:
        raise ValueError("invalid uint literal")
    return Uint(value)


def parse_double(text: str, *, negative: bool) -> float:
    value = float(text)
    if value == float("inf"):
        raise ValueError("invalid double literal")
    return -value if negative else value


def parse_string(text: str) -> str:
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body
    return _ESCAPE.sub(_character, body)


def parse_bytes(text: str) -> bytes:
    """Return the bytes: octal and hexadecimal escapes are bytes, other characters are encoded as UTF-8."""
    body, raw = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    out = bytearray()
    position = 0
    for escape in _ESCAPE.finditer(body):
        out += body[position : escape.start()].encode("utf-8", "surrogatepass")
        position = escape.end()
        _, byte, short, long, octal, _ = escape.groups()
        if short is not None or long is not None:
            raise ValueError("unable to unescape string")
        if byte is not None:
            out.append(int(byte, 16))
        elif octal is not None:
            out.append(int(octal, 8))
        else:
            out += _character(escape).encode("utf-8")
    out += body[position:].encode("utf-8", "surrogatepass")
    return bytes(out)


def _integer(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:], 16)
    # More digits than a 64-bit number; this also bounds the time of the conversion.
    digits = text.lstrip("0")
    return UINT_MAX + 1 if len(digits) > 20 else int(text[-20:] if len(text) > 20 else text)


def _body(text: str) -> tuple[str, bool]:
    """Return the characters between the quotes, with normalised line ends, and whether the literal is raw."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    width = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[width:-width], raw


def _character(escape: re.Match[str]) -> str:
    _, byte, short, long, octal, simple = escape.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    code = int(octal, 8) if octal is not None else int(byte or short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)
