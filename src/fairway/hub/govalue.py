"""Values as Go prints them: some of kube-apiserver's refusals show a value in Go's own notation."""

import json
import math
from typing import Any

import msgspec


def plain(value: Any) -> str:
    """As ``%v`` does: ``map[a:1 b:[x y]]``, keys sorted."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case float():
            return number(value)
        case dict():
            return f"map[{' '.join(f'{key}:{plain(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(map(plain, value))}]"
        case _:
            return str(value)


def source(value: Any) -> str:
    """As ``%#v`` does: what one would write in Go."""
    match value:
        case None:
            return "interface {}(nil)"
        case str():
            return quoted(value)
        case dict():
            inner = ", ".join(f"{quoted(key)}:{source(value[key])}" for key in sorted(value))
            return f"map[string]interface {{}}{{{inner}}}"
        case list():
            return f"[]interface {{}}{{{', '.join(map(source, value))}}}"
        case _:
            return plain(value)


def type_name(value: Any) -> str:
    match value:
        case None:
            return "<nil>"
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case dict():
            return "map[string]interface {}"
        case _:
            return "[]interface {}"


def quoted(text: str) -> str:
    """As ``%q`` does, for the text that names and keys consist of."""
    return json.dumps(text, ensure_ascii=False)


def number(value: float) -> str:
    """The shortest text that reads back as the same number; an exponent only from 1e21 or below 1e-4."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def json_text(value: Any) -> str:
    """JSON as Go's encoder writes it: whole numbers without a fraction, HTML's special characters escaped."""
    if type(value) is float:
        return number(value)
    text = msgspec.json.encode(value).decode()
    if "&" in text or "<" in text or ">" in text:
        text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return text
