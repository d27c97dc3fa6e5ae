"""Check constant templates of ``format()`` against the types of their arguments."""

from __future__ import annotations

from kubecel.checker import Checked
from kubecel.errors import Failure
from kubecel.libraries.formatting import ACCEPTED, TOO_MANY, clauses, refusal
from kubecel.source import Issue
from kubecel.syntax import Call, CreateList, CreateMap, Expr, Literal, children
from kubecel.types import Kind


def check_templates(checked: Checked) -> list[Issue]:
    issues: list[Issue] = []
    pending: list[Expr] = [checked.root]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and node.function == "format" and len(node.args) == 1:
            template, args = node.target, node.args[0]
            if (
                isinstance(template, Literal)
                and isinstance(template.value, str)
                and isinstance(args, CreateList)
            ):
                issue = _check(checked, node, template.value, args.elements)
                if issue is not None:
                    issues.append(issue)
        pending.extend(children(node))
    return issues


def _check(checked: Checked, call: Call, template: str, args: tuple[Expr, ...]) -> Issue | None:
    used = 0
    try:
        for clause in clauses(template, len(args)):
            if not clause.verb:
                continue
            culprit = _misfit(checked, clause.verb, args[used])
            if culprit is not None:
                return Issue(culprit.offset, refusal(clause.verb, checked.types[culprit.id].name))
            used += 1
    except Failure as failure:
        return Issue(call.offset, str(failure))
    if used < len(args):
        return Issue(call.offset, TOO_MANY.format(used, len(args)))
    return None


def _misfit(checked: Checked, verb: str, arg: Expr) -> Expr | None:
    """Return the type within the argument that the clause cannot format."""
    kind = checked.types[arg.id].kind
    if kind is not Kind.DYN and kind not in ACCEPTED[verb.lower()]:
        return arg
    if verb == "s" and isinstance(arg, (CreateList, CreateMap)):
        for part in children(arg):
            culprit = _misfit(checked, verb, part)
            if culprit is not None:
                return culprit
    return None
