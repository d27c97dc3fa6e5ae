"""Read nodes, pods and virtual machines from a hub or from files."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairway.api.resources import (
    MACHINE_MIGRATIONS,
    NODES,
    PODS,
    VIRTUAL_MACHINE_MIGRATIONS,
    VIRTUAL_MACHINES,
)
from fairway.cli.client.objects import listed, together
from fairway.cli.client.session import NoHubError, connection_to, talk
from fairway.cli.errors import BadInputError, InputProblemsError, Problem
from fairway.cli.files import sources
from fairway.cli.files.loader import documents_in, malformed
from fairway.cli.input import IGNORED, NO_INPUT
from fairway.cli.options.hub import HubChoice
from fairway.cli.text import say
from fairway.controllers.kinds import NAMESPACES
from fairway.controllers.machines.kinds import INSTANCE_MIGRATIONS, INSTANCES
from fairway.controllers.pods.kinds import BUDGETS, CLAIMS, OWNERS, STORAGE, VOLUMES
from kubewire.api.resource import key_of
from kubewire.client import Client, Forbidden, NotFound, Resource
from kubewire.client.codec import codec_of
from kubewire.client.errors import UnreadableError
from kubewire.client.events import CORE_EVENTS
from kubewire.documents.parser import DocumentError
from kubewire.documents.reader import value_of

OPTIONAL: Final[tuple[Resource[Any], ...]] = (
    VIRTUAL_MACHINES,
    VIRTUAL_MACHINE_MIGRATIONS,
    INSTANCES,
    INSTANCE_MIGRATIONS,
    MACHINE_MIGRATIONS,
)
"""Kinds of virtual machines and their migrations, which not every hub serves."""
MACHINES: Final[tuple[Resource[Any], ...]] = (NODES, PODS, *OPTIONAL)
"""What decides the room on nodes."""
SCHEDULING: Final[tuple[Resource[Any], ...]] = (
    *MACHINES,
    NAMESPACES,
    CLAIMS,
    VOLUMES,
    *STORAGE,
    BUDGETS,
    *OWNERS,
)
"""What decides where a pod may run."""
STORIES: Final[tuple[Resource[Any], ...]] = (*MACHINES, CORE_EVENTS)
"""Objects that describe migrations, present and past."""

NO_NODES: Final = "no Node in the input; name a file with nodes with -f"
NO_NODES_ON_HUB: Final = (
    "hub {server} has no Node; choose a cluster with --context, or run `fairway up --nodes 2`"
)
BAD_OBJECT: Final = "cannot decode: {reason}"
NOT_READ: Final = "fairway: {kind}s cannot be listed, and are ignored: {reason}"


def read_objects(
    resources: Sequence[Resource[Any]],
    *,
    files: tuple[str, ...],
    max_file_size: int,
    verbose: bool,
    with_hub: bool,
    hub: HubChoice,
) -> list[Any]:
    """Read files, or a hub, or a hub with the objects of files in place of its own. Raises BadInputError."""
    ignored: Counter[str] = Counter()
    loaded = _read_files(resources, files, max_file_size=max_file_size, ignored=ignored) if files else []
    if verbose and ignored:
        kinds = ", ".join(f"{kind} ({number})" for kind, number in sorted(ignored.items()))
        count = ignored.total()
        objects = "object" if count == 1 else "objects"
        say(IGNORED.format(count=count, objects=objects, kinds=kinds), stream=sys.stderr)
    if files and not with_hub and not hub.given:
        if not any(isinstance(thing, NODES.type) for thing in loaded):
            raise BadInputError(NO_NODES)
        return loaded
    try:
        server = connection_to(hub).server
    except NoHubError:
        if not files:
            raise BadInputError(NO_INPUT) from None
        raise
    on_hub = talk(hub, lambda client: read_hub(client, resources))
    replaced = {(type(thing), key_of(thing)) for thing in loaded}
    every = [thing for thing in on_hub if (type(thing), key_of(thing)) not in replaced] + loaded
    if not any(isinstance(thing, NODES.type) for thing in every):
        raise BadInputError(NO_NODES_ON_HUB.format(server=server))
    return every


async def read_hub(client: Client, resources: Sequence[Resource[Any]]) -> list[Any]:
    listings = await together(_listed(client, resource) for resource in resources)
    return [thing for kind in listings for thing in kind]


async def _listed(client: Client, resource: Resource[Any]) -> list[Any]:
    """List a kind. Kinds of virtual machines may be missing, and must be readable if the hub serves them."""
    try:
        return await listed(client, resource)
    except NotFound:
        if resource in (NODES, PODS):
            raise
        return []
    except Forbidden as error:
        if resource in OPTIONAL and not await is_served(client, resource):
            return []
        if resource in MACHINES:
            raise
        say(NOT_READ.format(kind=resource.kind, reason=error), stream=sys.stderr)
        return []


async def is_served(client: Client, resource: Resource[Any]) -> bool:
    """Return whether a hub serves a kind. Users may ask that without a permission to list it."""
    try:
        answer = await client.request("GET", f"/apis/{resource.api_version}")
    except NotFound:
        return False
    return any(entry["name"] == resource.plural for entry in msgspec.json.decode(answer.body)["resources"])


def _read_files(
    resources: Sequence[Resource[Any]],
    files: tuple[str, ...],
    *,
    max_file_size: int,
    ignored: Counter[str],
) -> list[Any]:
    kinds = {(resource.api_version, resource.kind): resource for resource in resources}
    problems: list[Problem] = []
    objects: list[Any] = []
    for path in sources.find_files(files, problems=problems):
        try:
            source = sources.read(path, max_bytes=max_file_size)
        except sources.SourceError as error:
            problems.append(error.problem)
            continue
        try:
            for document in documents_in(source):
                for value in _items(value_of(document)):
                    resource = kinds.get((value.get("apiVersion", ""), value.get("kind", "")))
                    if resource is None:
                        ignored[str(value.get("kind", ""))] += 1
                        continue
                    try:
                        objects.append(_decoded(resource, value))
                    except UnreadableError as error:
                        message = BAD_OBJECT.format(reason=error)
                        problems.append(Problem(file=source.name, line=document.line, message=message))
        except DocumentError as error:
            problems.append(malformed(source, error))
    if problems:
        raise InputProblemsError(problems)
    return objects


def _items(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a document: itself, or the items of a list."""
    if not isinstance(value, dict):
        return []
    items = value.get("items")
    if isinstance(items, list) and str(value.get("kind", "")).endswith("List"):
        return [item for item in items if isinstance(item, dict)]
    return [value]


def _decoded(resource: Resource[Any], value: dict[str, Any]) -> Any:
    metadata = value.get("metadata")
    if resource.namespaced and isinstance(metadata, dict) and not metadata.get("namespace"):
        value = {**value, "metadata": {**metadata, "namespace": "default"}}
    return codec_of(resource.type).object(msgspec.json.encode(value))
