"""`fairway crds`: print the CustomResourceDefinitions of OCM's and Fairway's kinds."""

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Literal

import click

from fairway.cli.errors import EXIT_OK, BadInputError
from fairway.cli.output import emit

if TYPE_CHECKING:
    from fairway.api.crd import Resource

UNKNOWN: Final = "unknown kind {word!r}; {hint}"
TABLE_TO_FILE: Final = "--out requires -o yaml or -o json"
_FORMATS: Final = ("yaml", "json", "table")
Format = Literal["yaml", "json", "table"]


def _offered(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    from fairway.api.crd import RESOURCES

    return [each.plural for each in RESOURCES if each.plural.startswith(typed)]


@click.command(
    short_help="Print the CRDs, ready for kubectl apply.",
    epilog="""\b
Examples:
  fairway crds | kubectl apply -f -
  fairway crds --out deploy/crds.yaml
  fairway crds managedclusterscores hostedclusterrequests hostingpolicies | kubectl apply -f -
  fairway crds -o table

\b
A hub with Open Cluster Management has all of them except managedclusterscores, hostedclusterrequests and
hostingpolicies; do not replace the others there.
""",
)
@click.argument("kinds", nargs=-1, metavar="[KIND]...", shell_complete=_offered)
@click.option(
    "-o",
    "--output",
    type=click.Choice(_FORMATS),
    default="yaml",
    show_default=True,
    help="table lists the kinds; yaml and json print the definitions.",
)
@click.option("--out", metavar="FILE", help="Write to this file atomically instead of standard output.")
def crds(kinds: tuple[str, ...], output: Format, out: str | None) -> int:
    """Print the CustomResourceDefinitions of all kinds, or of the named ones."""
    from fairway.api.crd import RESOURCES, crd

    wanted = [_meant(word) for word in kinds]
    chosen = [each for each in RESOURCES if not wanted or each in wanted]
    if output == "table":
        if out is not None:
            raise click.UsageError(TABLE_TO_FILE)
        rows = [_row(each) for each in chosen]
        emit(rows, columns={key: key.replace("_", " ") for key in rows[0]})
        return EXIT_OK
    from fairway.cli.files.export import export

    export((crd(each) for each in chosen), out=out, output=output)
    return EXIT_OK


def _row(resource: "Resource") -> dict[str, object]:
    return {
        "kind": resource.kind,
        "name": resource.name,
        "versions": [each.name for each in resource.versions],
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "short_names": resource.short_names,
    }


def _meant(word: str) -> "Resource":
    """Find a kind by any name that kubectl accepts. Raises BadInputError."""
    from fairway.api.crd import RESOURCES

    names = {
        name.lower(): each
        for each in RESOURCES
        for name in (each.plural, each.singular, each.name, *each.short_names)
    }
    found = names.get(word.lower())
    if found is None:
        near = get_close_matches(word.lower(), names, n=1)
        known = ", ".join(each.plural for each in RESOURCES)
        hint = f"did you mean {names[near[0]].plural}?" if near else f"known: {known}"
        raise BadInputError(UNKNOWN.format(word=word, hint=hint))
    return found
