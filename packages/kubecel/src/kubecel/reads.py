"""Find the inputs that an expression reads, without evaluating it.

Inputs with the same read values give the same result at the same cost, so a result can be cached per distinct
combination of values instead of per row.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubecel.checker import Checked
from kubecel.syntax import Call, Comprehension, Expr, Ident, Literal, Select, children

Path = tuple[str, ...]

SCORED_NAME: Path = ("metadata", "name")


@dataclass(frozen=True, slots=True)
class Reads:
    """``paths`` is None if a whole variable may be read; ``scores`` is None if any score may be read."""

    paths: frozenset[Path] | None
    scores: frozenset[str] | None


def find_reads(checked: Checked) -> Reads:
    finder = _Finder(checked)
    pending: list[Expr] = [checked.root]
    while pending:
        pending.extend(finder.visit(pending.pop()))
    whole = any(len(path) == 1 for path in finder.paths)
    return Reads(
        None if whole else frozenset(finder.paths), None if finder.any_score else frozenset(finder.scores)
    )


class _Finder:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self.paths: set[Path] = set()
        self.scores: set[str] = set()
        self.any_score = False

    def visit(self, node: Expr) -> tuple[Expr, ...]:
        """Record the reads of the node itself; return the parts to visit."""
        if isinstance(node, Call) and self._is_scores(node):
            return self._visit_scores(node)
        path = self._path(node)
        if path is not None:
            self.paths.add(path)
            return ()
        if isinstance(node, Comprehension):
            # The rest of the expansion reads no input.
            return children(node)
        return children(node)

    def _is_scores(self, node: Call) -> bool:
        function = self._checked.functions.get(node.id)
        return function is not None and function.name == "scores"

    def _visit_scores(self, node: Call) -> tuple[Expr, ...]:
        name = node.args[0]
        if isinstance(name, Literal) and isinstance(name.value, str):
            self.scores.add(name.value)
        else:
            self.any_score = True
        target = node.target
        if isinstance(target, Ident) and target.id in self._checked.names:
            self.paths.add((self._checked.names[target.id], *SCORED_NAME))
            return (name,)
        return children(node)

    def _path(self, node: Expr) -> Path | None:
        """Return the path of an access by constant names that starts at a variable."""
        names: list[str] = []
        while True:
            variable = self._checked.names.get(node.id)
            if variable is not None:
                return (variable, *reversed(names))
            if isinstance(node, Select):
                names.append(node.field)
                node = node.operand
            elif (
                isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._") and node.target is None
            ):
                index = node.args[1]
                if not isinstance(index, Literal) or not isinstance(index.value, str):
                    return None
                names.append(index.value)
                node = node.args[0]
            else:
                return None
