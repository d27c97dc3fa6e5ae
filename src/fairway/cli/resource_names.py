"""The names that kubectl accepts for the kinds of this command line: one or many, short or in full, in any case."""

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
}
"""By the name of the subcommand of ``fairway get``."""
NAMES: Final = {alias: name for name, aliases in ALIASES.items() for alias in (name, *aliases)}

_QUALIFIER: Final = re.compile(r"(?:\.v\d+(?:(?:alpha|beta)\d+)?)?\.cluster\.open-cluster-management\.io")


def resource_of(word: str) -> str | None:
    """The kind that kubectl would understand; None for a word that names none."""
    name, dot, rest = word.lower().partition(".")
    if dot and not _QUALIFIER.fullmatch(f".{rest}"):
        return None
    return NAMES.get(name)


def split_name(word: str) -> tuple[str, str] | None:
    """The kind and the name of kubectl's TYPE/NAME; None for a word of another form."""
    kind, slash, name = word.partition("/")
    found = resource_of(kind) if slash and name else None
    return None if found is None else (found, name)


def separate_names(words: Sequence[str]) -> list[str]:
    """``placement/a placement/b`` as ``placements a b``. Words of another form stay as they are."""
    first = split_name(words[0]) if words else None
    if first is None:
        return list(words)
    named = (split_name(word) for word in words)
    return [
        first[0],
        *(
            found[1] if found is not None and found[0] == first[0] else word
            for word, found in zip(words, named, strict=True)
        ),
    ]
