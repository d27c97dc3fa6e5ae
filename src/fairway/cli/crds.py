"""`fairway crds`: print the CustomResourceDefinitions of OCM's and Fairway's kinds."""

from difflib import get_close_matches
from typing import Final, Literal

import click

from fairway.api.crd import RESOURCES
from fairway.cli.errors import EXIT_OK, BadInputError
from fairway.cli.files.export import export
from fairway.cli.output import emit
from kubewire.api.custom_resource import CustomResource, crd

UNKNOWN: Final = "unknown kind {word!r}; {hint}"
TABLE_TO_FILE: Final = "--out requires -o yaml or -o json"
Format = Literal["yaml", "json", "table"]


def offer(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    return [resource.plural for resource in RESOURCES if resource.plural.startswith(typed)]


def crds(kinds: tuple[str, ...], output: Format, out: str | None) -> int:
    wanted = [_meant(word) for word in kinds]
    chosen = [resource for resource in RESOURCES if not wanted or resource in wanted]
    if output == "table":
        if out is not None:
            raise click.UsageError(TABLE_TO_FILE)
        rows = [_row(resource) for resource in chosen]
        emit(rows, columns={key: key.replace("_", " ") for key in rows[0]})
        return EXIT_OK
    export((crd(resource) for resource in chosen), out=out, output=output)
    return EXIT_OK


def _row(resource: CustomResource) -> dict[str, object]:
    return {
        "kind": resource.kind,
        "name": resource.name,
        "versions": [version.name for version in resource.versions],
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "short_names": resource.short_names,
    }


def _meant(word: str) -> CustomResource:
    """Find a kind by any name that kubectl accepts. Raises BadInputError."""
    names = {
        name.lower(): resource
        for resource in RESOURCES
        for name in (resource.plural, resource.singular, resource.name, *resource.short_names)
    }
    resource = names.get(word.lower())
    if resource is None:
        near = get_close_matches(word.lower(), names, n=1)
        known = ", ".join(resource.plural for resource in RESOURCES)
        hint = f"did you mean {names[near[0]].plural}?" if near else f"known: {known}"
        raise BadInputError(UNKNOWN.format(word=word, hint=hint))
    return resource
