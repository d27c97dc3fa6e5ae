"""Exchanges with a hub, and the parts of a response that must be equal on every hub.

A script is a list of requests, sent in order to its own namespace. The responses of a real kube-apiserver are recorded
in ``golden/exchanges.jsonl.gz``; every hub must send the same ones, after uids, versions, times and generated names
are replaced by placeholders.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
PATCHED = re.compile(r'(Invalid value: ")\{.*\}(": )', re.DOTALL)
"""An invalid patched object is printed in full, with its keys in any order."""
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
AGE = re.compile(r"\d+s")
"""In a cell of a table; a busy machine may take more than the second that was recorded."""


@dataclass(frozen=True, kw_only=True)
class Call:
    method: str
    path: str
    body: Any = None
    type: str = JSON
    accept: str = JSON
    keep: str = ""
    """Remember this part of the answer (a dotted path) under its last name, for ``$name`` in later calls."""


@dataclass(frozen=True, kw_only=True)
class Script:
    name: str
    calls: list[Call] = field(default_factory=list)


def filled(text: str, known: dict[str, str]) -> str:
    for key, value in known.items():
        text = text.replace(f"${key}", value)
    return text


def lookup(answer: Any, path: str) -> str:
    """Empty when the answer has no such part: then the answers differ anyway."""
    for part in path.split("."):
        answer = answer.get(part, "") if isinstance(answer, dict) else ""
    return str(answer)


def normal(value: Any, *, namespace: str, key: str = "") -> Any:
    """The answer with placeholders for what differs from hub to hub and run to run."""
    if isinstance(value, dict):
        if key == "columnDefinitions":
            value = {**value, "description": "<words>"}
        value = _unordered(value)
        return {k: normal(v, namespace=namespace, key=k) for k, v in sorted(value.items())}
    if isinstance(value, list):
        kept = [v for v in value if not _published(v)]
        return [normal(v, namespace=namespace, key=key) for v in kept]
    if isinstance(value, str):
        if key == "cells" and AGE.fullmatch(value):
            return "0s"
        if key == "resourceVersion" and value:
            return "<version>"
        value = re.sub(r'(resourceVersion\\*": ?\\*")\d+', r"\1<version>", value)
        value = re.sub(r"(in record \()\d+\)", r"\1<version>)", value)
        value = PATCHED.sub(r"\1<object>\2", value)
        if key == "continue" and value:
            return "<continue>"
        value = UID.sub("<uid>", value)
        value = TIME.sub("<time>", value)
        value = ADDRESS.sub("<address>", value)
        value = re.sub(rf"\b{re.escape(namespace)}\b", "<namespace>", value)
        return re.sub(r"\b([Gg]enerated-)[a-z0-9]{5}\b", r"\1<random>", value)
    return value


def _unordered(value: dict[str, Any]) -> dict[str, Any]:
    """Causes of a refusal come in any order, and the entries of managers in that of the second they wrote in."""
    causes = (value.get("details") or {}).get("causes") if value.get("kind") == "Status" else None
    if causes and len(causes) > 1:
        told = {f"{c.get('field')}: {c.get('message')}" for c in causes}
        message = str(value["message"])
        for text in sorted(told, key=len, reverse=True):
            message = message.replace(text, "")
        ordered = sorted(causes, key=lambda c: (str(c.get("field")), str(c.get("message"))))
        value = {**value, "message": message, "details": {**value["details"], "causes": ordered}}
    if isinstance(value.get("managedFields"), list):
        entries = sorted(
            value["managedFields"],
            key=lambda e: (
                e.get("operation"),
                e.get("manager"),
                e.get("subresource", ""),
                e.get("apiVersion"),
            ),
        )
        value = {**value, "managedFields": entries}
    return value


def _published(value: Any) -> bool:
    """The certificate authority that a controller puts into every namespace, sooner or later."""
    if not isinstance(value, dict):
        return False
    held = value.get("object") if "cells" in value else value
    return isinstance(held, dict) and (held.get("metadata") or {}).get("name") == "kube-root-ca.crt"


def recorded(lines: list[str]) -> dict[str, list[dict[str, Any]]]:
    return {entry["script"]: entry["answers"] for entry in map(json.loads, lines) if "script" in entry}
