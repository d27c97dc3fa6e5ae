"""Completion of names from a hub."""

from collections.abc import Callable
from typing import Literal

import click

from fairway.cli.lazy import load

Kind = Literal[
    "clusters",
    "clustersets",
    "placements",
    "scores",
    "namespaces",
    "pods",
    "machines",
    "hostedclusterrequests",
]
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def complete(kind: Kind) -> Complete:
    """Return a completer for the names of a kind."""

    def offered(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        names: list[str] = load("fairway.cli.completion:offer")(context, kind, typed)
        return names

    return offered
