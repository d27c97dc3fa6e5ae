"""Objects in a dict, as an ``ObjectReader``."""

from collections.abc import Iterable
from typing import Any

from kubehub.rbac.roles import GROUP
from kubehub.resource import Document


class FakeObjects:
    """``forgetful`` never reports what changed, so everything is read again."""

    def __init__(self, *, forgetful: bool = False) -> None:
        self.revision = 1
        self.forgetful = forgetful
        self.reads: list[tuple[str, str, str]] = []
        self._objects: dict[tuple[str, str, str], Document] = {}
        self._changes: list[tuple[int, tuple[str, str, str]]] = []

    def put(self, resource: str, document: Document) -> Document:
        meta = document["metadata"]
        meta.setdefault("uid", f"uid-{self.revision}")
        self._change((resource, meta.get("namespace", ""), meta["name"]), document)
        return document

    def delete(self, resource: str, name: str, namespace: str = "") -> None:
        self._change((resource, namespace, name), None)

    def _change(self, key: tuple[str, str, str], document: Document | None) -> None:
        self.revision += 1
        self._changes.append((self.revision, key))
        if document is None:
            del self._objects[key]
        else:
            self._objects[key] = document

    def documents(self, resource: str, namespace: str | None = None) -> Iterable[Document]:
        for (kind, place, name), document in self._objects.items():
            if kind == resource and namespace in (None, place):
                self.reads.append((kind, place, name))
                yield document

    def document(self, resource: str, namespace: str, name: str) -> Document | None:
        self.reads.append((resource, namespace, name))
        return self._objects.get((resource, namespace, name))

    def last_revision(self, resource: str) -> int:
        return max((revision for revision, key in self._changes if key[0] == resource), default=0)

    def changed_since(self, resource: str, since: int) -> Iterable[tuple[str, str]] | None:
        if self.forgetful:
            return None
        return [
            (key[1], key[2]) for revision, key in self._changes if revision > since and key[0] == resource
        ]

    # Shorthands for roles and bindings

    def cluster_role(
        self, name: str, *rules: Document, labels: dict[str, str] | None = None, **more: Any
    ) -> None:
        meta = {"name": name, "labels": labels or {}}
        self.put(f"clusterroles.{GROUP}", {"metadata": meta, "rules": list(rules), **more})

    def role(self, namespace: str, name: str, *rules: Document) -> None:
        self.put(f"roles.{GROUP}", {"metadata": {"name": name, "namespace": namespace}, "rules": list(rules)})

    def bind(
        self, role: str, *subjects: Document, name: str = "", namespace: str = "", kind: str = "ClusterRole"
    ) -> None:
        meta = {"name": name or role} | ({"namespace": namespace} if namespace else {})
        plural = "rolebindings" if namespace else "clusterrolebindings"
        ref = {"apiGroup": GROUP, "kind": kind, "name": role}
        self.put(f"{plural}.{GROUP}", {"metadata": meta, "roleRef": ref, "subjects": list(subjects)})


def rule(verbs: str, groups: str = "core", resources: str = "", names: str = "") -> Document:
    made: Document = {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
    }
    return made | {"resourceNames": names.split()} if names else made


def paths(verbs: str, urls: str) -> Document:
    return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}


def user(name: str) -> Document:
    return {"kind": "User", "name": name, "apiGroup": GROUP}


def group(name: str) -> Document:
    return {"kind": "Group", "name": name, "apiGroup": GROUP}


def account(name: str, namespace: str = "") -> Document:
    return {"kind": "ServiceAccount", "name": name} | ({"namespace": namespace} if namespace else {})
