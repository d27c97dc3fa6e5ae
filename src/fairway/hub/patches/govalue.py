"""Values as Go prints them: some of kube-apiserver's refusals show a value in Go's own notation."""

from typing import Any

from fairway.hub.notation import number, quoted


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
