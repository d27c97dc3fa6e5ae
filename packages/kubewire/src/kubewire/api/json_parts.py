"""Split JSON objects and arrays into the texts of their parts, so that each part can be decoded separately.

The decoder splits in C, and fails on the whole where a part is nested deeper than the interpreter's stack, or a key is
no text. Then a scanner splits: linear in the text, and without recursion, whatever the text contains.
"""

import itertools
import json
import re
from typing import Final, cast

import msgspec
import numpy as np
from msgspec import Raw

_object_parts: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_array_parts: Final = msgspec.json.Decoder(list[Raw]).decode
_FAILURES: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_OPENING, _CLOSING, _COMMA, _QUOTE = tuple(b"[{"), tuple(b"]}"), ord(","), ord('"')


def members(raw: bytes) -> dict[str, bytes] | None:
    """Return the fields of a JSON object; None if ``raw`` is not one."""
    try:
        return {key: bytes(value) for key, value in _object_parts(raw).items()}
    except _FAILURES:
        pass
    parts = _scan(raw, opening=b"{", closing=b"}")
    values: dict[str, bytes] = {}
    for part in parts:
        name = _STRING.match(part)
        if name is None:
            return None
        key = _text(name[0])
        value = part[part.find(b":", name.end()) + 1 :].strip()
        # A key that is no text makes its value unreadable: the two belong together.
        values[key or name[0].decode(errors="replace")] = b"" if key is None else value
    return values if parts else None


def elements(raw: bytes) -> list[bytes] | None:
    """Return the items of a JSON array; None if ``raw`` is not one."""
    try:
        return [bytes(item) for item in _array_parts(raw)]
    except _FAILURES:
        return _scan(raw, opening=b"[", closing=b"]") or None


def _scan(raw: bytes, *, opening: bytes, closing: bytes) -> list[bytes]:
    """Return the texts between the outermost commas; none if the brackets do not match."""
    text = raw.strip()
    if not (text.startswith(opening) and text.endswith(closing)):
        return []
    # Every quote that is left begins or ends a string.
    codes = np.frombuffer(text.replace(b"\\\\", b"__").replace(b'\\"', b"__"), dtype=np.uint8)
    outside = np.cumsum(codes == _QUOTE) % 2 == 0
    opens = outside & np.isin(codes, _OPENING)
    closes = outside & np.isin(codes, _CLOSING)
    depth = np.cumsum(opens, dtype=np.int64) - np.cumsum(closes, dtype=np.int64)
    if depth[-1] != 0 or not outside[-1]:
        return []
    commas = np.flatnonzero(outside & (codes == _COMMA) & (depth == 1)).tolist()
    cuts = itertools.pairwise((0, *commas, len(text) - 1))
    return [part for start, end in cuts if (part := text[start + 1 : end].strip())]


def _text(quoted: bytes) -> str | None:
    """Return the string; None if it is invalid, such as half of a surrogate pair."""
    try:
        text = json.loads(quoted)
        text.encode()
    except ValueError:
        return None
    return cast("str", text)
