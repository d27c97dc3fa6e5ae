"""Names with ``*`` wildcards."""


def matches(name: str, pattern: str) -> bool:
    """A star matches any text, also none. Linear in the length of the name for any pattern."""
    first, *parts = pattern.split("*")
    if not parts:
        return name == pattern
    *middle, last = parts
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
