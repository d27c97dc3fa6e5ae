"""The default roles and bindings of every hub, from the table ``default.roles``."""

from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any, Final

from kubehub.rbac import authorizer
from kubehub.rbac.roles import GROUP, Rule, missing_rules, rules_of
from kubehub.resource import Document

CONTROLLERS: Final = "fairway:controllers"
"""The permissions of all controllers of kube-controller-manager, for one that runs them under one identity."""
CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"

_BOOTSTRAPPING: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"
_CONTROLLER: Final = "system:controller:"
_VERBS: Final = {
    "read": ("get", "list", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
}
_EVENTS: Final = "create patch update | core events.k8s.io | events"
_API: Final = f"{GROUP}/v1"


def documents() -> Iterator[tuple[str, Document]]:
    """Yield each object with its resource key. The caller may modify the objects."""
    needed: dict[Rule, None] = {}
    for head, lines in _entries():
        role = _role(head, [line for line in lines if not line.startswith("->")])
        if role["metadata"]["name"].startswith(_CONTROLLER) and role["kind"] == "ClusterRole":
            needed.update(dict.fromkeys(rules_of(role)))
        yield (authorizer.ROLES if role["kind"] == "Role" else authorizer.CLUSTER_ROLES), role
        for line in lines:
            if line.startswith("->"):
                binding = _binding(role, line.removeprefix("->").strip())
                namespaced = role["kind"] == "Role"
                yield (authorizer.ROLE_BINDINGS if namespaced else authorizer.CLUSTER_ROLE_BINDINGS), binding
    role = _role(CONTROLLERS, []) | {"rules": [rule.document() for rule in needed]}
    yield authorizer.CLUSTER_ROLES, role
    yield authorizer.CLUSTER_ROLE_BINDINGS, _binding(role, f"user {CONTROLLER_MANAGER}")


def reconcile(stored: Document, wanted: Document) -> Document | None:
    """Return a stored default with the additions of a newer version; None if it is complete or opted out.

    Nothing is removed, so administrators' additions stay. A binding whose roleRef was changed stays as it is.
    """
    annotations = stored["metadata"].get("annotations") or {}
    if annotations.get(AUTO_UPDATE, "true") == "false" or stored.get("roleRef") != wanted.get("roleRef"):
        return None
    added: Document = {}
    if lacking := missing_rules(rules_of(stored), rules_of(wanted)):
        added["rules"] = [*(stored.get("rules") or ()), *(rule.document() for rule in lacking)]
    had = stored.get("subjects") or []
    if new := [subject for subject in wanted.get("subjects") or () if subject not in had]:
        added["subjects"] = [*had, *new]
    if "aggregationRule" in wanted and stored.get("aggregationRule") != wanted["aggregationRule"]:
        added["aggregationRule"] = wanted["aggregationRule"]
    labels = stored["metadata"].get("labels") or {}
    if new_labels := {k: v for k, v in (wanted["metadata"].get("labels") or {}).items() if k not in labels}:
        added["metadata"] = stored["metadata"] | {"labels": labels | new_labels}
    return stored | added if added else None


@cache
def _entries() -> tuple[tuple[str, tuple[str, ...]], ...]:
    entries: list[tuple[str, list[str]]] = []
    text = resources.files("kubehub.rbac").joinpath("default.roles").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith(" "):
            entries[-1][1].append(line.strip())
        elif line and not line.startswith("#"):
            entries.append((line, []))
    return tuple((head, tuple(lines)) for head, lines in entries)


def _role(head: str, lines: list[str]) -> Document:
    full, *words = head.split()
    options = dict(zip(words[::2], words[1::2], strict=True))
    namespace, _, name = full.rpartition("/")
    labels = dict(_BOOTSTRAPPING)
    if "into" in options:
        labels[_AGGREGATE + options["into"]] = "true"
    role: Document = {
        "kind": "Role" if namespace else "ClusterRole",
        "apiVersion": _API,
        "metadata": _metadata(name, namespace, labels),
        "rules": [_rule(line) for line in lines] or None,
    }
    if "gathers" in options:
        selector = {"matchLabels": {_AGGREGATE + options["gathers"]: "true"}}
        role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    return role


def _rule(line: str) -> Document:
    parts = [part.split() for part in (_EVENTS if line == "events" else line).split("|")]
    verbs = sorted(verb for word in parts[0] for verb in _VERBS.get(word, (word,)))
    if len(parts) == 2:
        return {"verbs": verbs, "nonResourceURLs": parts[1]}
    rule: Document = {
        "verbs": verbs,
        "apiGroups": ["" if group == "core" else group for group in parts[1]],
        "resources": parts[2],
    }
    return rule | {"resourceNames": parts[3]} if len(parts) == 4 else rule


def _binding(role: Document, line: str) -> Document:
    who, _, name = line.partition(" as ")
    meta = role["metadata"]
    binding: Document = {
        "kind": f"{role['kind']}Binding",
        "apiVersion": _API,
        "metadata": _metadata(name or meta["name"], meta.get("namespace", ""), dict(_BOOTSTRAPPING)),
        "roleRef": {"apiGroup": GROUP, "kind": role["kind"], "name": meta["name"]},
    }
    subjects = [_subject(*part.split()) for part in who.split(", ") if part != "none"]
    return binding | {"subjects": subjects} if subjects else binding


def _subject(kind: str, name: str) -> Document:
    if kind == "account":
        namespace, _, account = name.partition("/")
        return {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return {"kind": kind.capitalize(), "apiGroup": GROUP, "name": name}


def _metadata(name: str, namespace: str, labels: dict[str, str]) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "labels": labels, "annotations": {AUTO_UPDATE: "true"}}
    return meta | {"namespace": namespace} if namespace else meta
