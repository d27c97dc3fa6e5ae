"""Names of kinds as kubectl accepts them: singular, plural, short or full, in any case."""

import re
from collections.abc import Sequence
from typing import Final

ALIASES: Final = {
    "clusters": ("cluster", "managedcluster", "managedclusters", "mcl", "mcls"),
    "clustersets": ("clusterset", "managedclusterset", "managedclustersets", "mclset", "mclsets"),
    "placements": ("placement",),
    "decisions": ("decision", "placementdecision", "placementdecisions"),
    "scores": ("score", "addonplacementscore", "addonplacementscores"),
    "providers": ("provider",),
    "hostedclusterrequests": ("hostedclusterrequest", "hcr", "hcrs"),
}
"""By subcommand of ``fairway get``."""
NAMES: Final = {alias: name for name, aliases in ALIASES.items() for alias in (name, *aliases)}

_QUALIFIER: Final = re.compile(
    r"(?:\.v\d+(?:(?:alpha|beta)\d+)?)?\.(?:cluster\.open-cluster-management\.io|placement\.fairway\.dev)"
)


def resource_of(word: str) -> str | None:
    """Return the kind that a word names; None if it names none."""
    name, dot, rest = word.lower().partition(".")
    if dot and not _QUALIFIER.fullmatch(f".{rest}"):
        return None
    return NAMES.get(name)


def split_name(word: str) -> tuple[str, str] | None:
    """Split kubectl's TYPE/NAME; None for other words."""
    kind, slash, name = word.partition("/")
    resource = resource_of(kind) if slash and name else None
    return None if resource is None else (resource, name)


def separate_names(words: Sequence[str]) -> list[str]:
    """Turn ``placement/a placement/b`` into ``placements a b``. Other words are kept."""
    first = split_name(words[0]) if words else None
    if first is None:
        return list(words)
    named = (split_name(word) for word in words)
    return [
        first[0],
        *(
            name[1] if name is not None and name[0] == first[0] else word
            for word, name in zip(words, named, strict=True)
        ),
    ]
