"""Find the nodes that lead to wanted ones, so that walks over documents can skip the rest. Nodes may be cyclic."""

from collections.abc import Callable, Iterator

from kubehub.schema import Node

Reach = frozenset[int]
"""Identities of nodes, which must outlive it."""


def children(node: Node) -> Iterator[Node]:
    yield from node.properties.values()
    if node.additional is not None:
        yield node.additional
    if node.items is not None:
        yield node.items


def reaching(root: Node, wanted: Callable[[Node], bool]) -> Reach:
    """Return the nodes that are wanted or lead to one that is."""
    above: dict[int, list[int]] = {}
    pending, seen = [root], {id(root)}
    matching = [id(root)] if wanted(root) else []
    while pending:
        node = pending.pop()
        for child in children(node):
            above.setdefault(id(child), []).append(id(node))
            if id(child) not in seen:
                seen.add(id(child))
                pending.append(child)
                if wanted(child):
                    matching.append(id(child))
    reached: set[int] = set()
    while matching:
        key = matching.pop()
        if key not in reached:
            reached.add(key)
            matching += above.get(key, ())
    return frozenset(reached)
