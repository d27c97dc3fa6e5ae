"""The RBAC authorizer, with kube-apiserver's decisions, and its escalation check.

Bindings are indexed by subject and updated one by one. The rules of a user in a namespace are collected once and
cached until any role or binding changes, so a decision costs a few lookups.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from kubehub import status
from kubehub.authn.service_account_tokens import username
from kubehub.object_reader import ObjectReader
from kubehub.rbac.roles import (
    EVERYTHING,
    GROUP,
    Role,
    Rule,
    aggregated_rules,
    count_permissions,
    format_list,
    missing_rules,
    rules_of,
)
from kubehub.resource import Document
from kubehub.user import MASTERS, User
from kubewire.api.selector import quote

ROLES: Final = f"roles.{GROUP}"
CLUSTER_ROLES: Final = f"clusterroles.{GROUP}"
ROLE_BINDINGS: Final = f"rolebindings.{GROUP}"
CLUSTER_ROLE_BINDINGS: Final = f"clusterrolebindings.{GROUP}"

ESCALATION: Final = (
    "user {user} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{missing}"
)
AGGREGATION_NEEDS_ALL: Final = "must have cluster-admin privileges to use the aggregationRule"
TOO_MANY_PERMISSIONS: Final = "expands to more than {most} single permissions; use wildcards or several roles"

MAX_PERMISSIONS: Final = 50_000
"""More rules than legitimate roles have; few enough to compare them without delaying others."""
_CACHE_SIZE: Final = 2048
_REMEMBERED_ANSWERS: Final = 128
"""Cached decisions of one user in one namespace. Clients choose the requests, so the cache is small."""
_LONGEST: Final = 256
_MAX_GROUPS: Final = 256
"""Groups of users whose rules are cached. A review can name a user with any number of them."""


class Attributes(Struct, frozen=True, kw_only=True, gc=False):
    """The attributes of a request. ``path`` is set only for non-resource requests."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None


class Decision(Struct, frozen=True, gc=False):
    allowed: bool
    reason: str = ""


_ALLOWED: Final = Decision(allowed=True)


def refusal(user: User, attributes: Attributes, reason: str = "") -> status.Refusal:
    """Build the 403 with Kubernetes' message."""
    message = _denial_message(user, attributes)
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        message = message.replace(char, entity)
    return status.forbidden(
        attributes.group, attributes.resource, attributes.name, f"{message}: {reason}" if reason else message
    )


def _denial_message(user: User, attributes: Attributes) -> str:
    who = f"User {quote(user.name)} cannot {attributes.verb}"
    if attributes.path is not None:
        return f"{who} path {quote(attributes.path)}"
    resource = (
        f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    )
    where = (
        f"in the namespace {quote(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    )
    return f"{who} resource {quote(resource)} in API group {quote(attributes.group)} {where}"


@dataclass(frozen=True, slots=True)
class _Binding:
    name: str
    namespace: str
    role_kind: str
    role: str
    subjects: tuple[tuple[str, str], ...]
    """The index key of each subject, and its description."""

    @classmethod
    def of(cls, document: Document) -> "_Binding":
        meta, ref = document["metadata"], document.get("roleRef") or {}
        namespace = meta.get("namespace", "")
        subjects = tuple(_subjects(document.get("subjects") or (), namespace))
        return cls(meta["name"], namespace, ref.get("kind", ""), ref.get("name", ""), subjects)

    def describe(self, subject: str) -> str:
        of = f"of {self.role_kind} {quote(self.role)} to {subject}"
        if not self.namespace:
            return f"RBAC: allowed by ClusterRoleBinding {quote(self.name)} {of}"
        return f"RBAC: allowed by RoleBinding {quote(f'{self.name}/{self.namespace}')} {of}"


def _subjects(subjects: Iterable[Document], namespace: str) -> Iterator[tuple[str, str]]:
    for subject in subjects:
        kind, name = subject.get("kind", ""), subject.get("name", "")
        if kind == "ServiceAccount":
            # Without a namespace, the binding's own; a ClusterRoleBinding has none, so the subject matches no account.
            if home := subject.get("namespace") or namespace:
                yield _user_key(username(home, name)), f"{kind} {quote(f'{name}/{home}')}"
        elif kind == "User":
            yield _user_key(name), f"{kind} {quote(name)}"
        elif kind == "Group":
            yield _group_key(name), f"{kind} {quote(name)}"


def _user_key(name: str) -> str:
    return f"u{name}"


def _group_key(name: str) -> str:
    return f"g{name}"


class _Grants:
    """All rules of one user in one namespace, or cluster-wide."""

    __slots__ = ("_known", "faults", "rules")

    def __init__(self, rules: list[tuple[Rule, str]], faults: list[str]) -> None:
        self.rules, self.faults = rules, faults
        self._known: dict[tuple[str, ...], tuple[tuple[frozenset[str] | None, str], ...]] = {}

    def reason(self, attributes: Attributes) -> str | None:
        """Return the reason why the request is allowed, or None."""
        if attributes.path is not None:
            key: tuple[str, ...] = (attributes.verb, attributes.path)
        else:
            key = (attributes.verb, attributes.group, attributes.resource, attributes.subresource)
        matching = self._known.get(key)
        if matching is None:
            matching = tuple(self._matching_names(attributes))
            if sum(map(len, key)) <= _LONGEST:
                if len(self._known) >= _REMEMBERED_ANSWERS:
                    self._known.clear()
                self._known[key] = matching
        name = attributes.name
        for names, reason in matching:
            if names is None or name in names:
                return reason
        return None

    def _matching_names(self, attributes: Attributes) -> Iterator[tuple[frozenset[str] | None, str]]:
        """Yield the resource names of each matching rule, up to the first without such a limit."""
        for rule, reason in self.rules:
            if attributes.path is not None:
                if rule.permits_path(attributes.verb, attributes.path):
                    yield None, reason
                    return
            elif rule.permits(attributes.verb, attributes.group, attributes.resource, attributes.subresource):
                if not rule.names:
                    yield None, reason
                    return
                yield frozenset(rule.names), reason


@dataclass(slots=True)
class _Index:
    """Bindings of a namespace, or of the cluster, by subject and then by name."""

    bindings: dict[str, _Binding] = field(default_factory=dict)
    by_subject: dict[str, dict[str, _Binding]] = field(default_factory=dict)

    def put(self, name: str, binding: _Binding | None) -> None:
        if (old := self.bindings.pop(name, None)) is not None:
            for key, _ in old.subjects:
                named = self.by_subject.get(key, {})
                named.pop(name, None)
                if not named:
                    self.by_subject.pop(key, None)
        if binding is not None:
            self.bindings[name] = binding
            for key, _ in binding.subjects:
                self.by_subject.setdefault(key, {})[name] = binding

    def bindings_for(self, keys: set[str]) -> Iterator[tuple[_Binding, str]]:
        """Return the bindings by name, each with the description of its first matching subject."""
        matching = {name: binding for key in keys for name, binding in self.by_subject.get(key, {}).items()}
        for name in sorted(matching):
            yield matching[name], next(text for key, text in matching[name].subjects if key in keys)


class Authorizer:
    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects
        self._seen = dict.fromkeys((CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS), -1)
        self._cluster_roles: dict[str, Role] = {}
        self._roles: dict[tuple[str, str], tuple[Rule, ...]] = {}
        self._bindings: dict[str, _Index] = {}
        self._aggregated: dict[str, tuple[Rule, ...]] = {}
        self._grants: dict[tuple[str, tuple[str, ...], str], _Grants] = {}

    def decide(self, user: User, attributes: Attributes) -> Decision:
        if MASTERS in user.groups:
            return _ALLOWED
        grants = self._cached_grants(user, attributes.namespace)
        reason = grants.reason(attributes)
        if reason is not None:
            return Decision(allowed=True, reason=reason)
        return Decision(allowed=False, reason=f"RBAC: {_join_faults(grants.faults)}" if grants.faults else "")

    def authorize(self, user: User, attributes: Attributes) -> None:
        """Raise a 403 unless the request is allowed."""
        decision = self.decide(user, attributes)
        if not decision.allowed:
            raise refusal(user, attributes, decision.reason)

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], str]:
        """Return all rules of a user in a namespace, and the errors met."""
        grants = self._cached_grants(user, namespace)
        return [rule for rule, _ in grants.rules], _join_faults(grants.faults)

    def admit(
        self, resource: str, document: Document, old: Document | None, *, user: User, namespace: str = ""
    ) -> None:
        """Raise a 403 if this role or binding grants more than its author holds.

        ``resource`` is one of the four RBAC resources; others pass. Precedes validation, as in kube-apiserver.
        """
        if MASTERS in user.groups or (old is not None and _changes_only_gc_fields(document, old)):
            return
        name = document["metadata"].get("name", "")
        match resource:
            case "roles" | "clusterroles":
                known = name if old is not None else ""
                if self._is_allowed(user, "escalate", resource, known, namespace):
                    return
                self._check_escalation(user, resource, name, namespace, rules_of(document))
                if _aggregates(document) or (old is not None and _aggregates(old)):
                    held, _ = self.rules_for(user, namespace)
                    if missing_rules(held, EVERYTHING):
                        raise status.forbidden(GROUP, resource, name, AGGREGATION_NEEDS_ALL)
            case "rolebindings" | "clusterrolebindings":
                ref = document.get("roleRef") or {}
                kind, role = ref.get("kind", ""), ref.get("name", "")
                target = {"Role": "roles", "ClusterRole": "clusterroles"}.get(kind)
                if target is None:
                    raise _unsupported(kind)
                if self._is_allowed(user, "bind", target, role, namespace):
                    return
                self._refresh()
                rules = self._rules_of_role(kind, role, namespace)
                if rules is None:
                    raise status.not_found(GROUP, resource, role)
                self._check_escalation(user, resource, name, namespace, rules)

    def _is_allowed(self, user: User, verb: str, resource: str, name: str, namespace: str) -> bool:
        attributes = Attributes(verb=verb, group=GROUP, resource=resource, name=name, namespace=namespace)
        return self.decide(user, attributes).allowed

    def _check_escalation(
        self, user: User, resource: str, name: str, namespace: str, wanted: tuple[Rule, ...]
    ) -> None:
        if count_permissions(wanted) > MAX_PERMISSIONS:
            detail = TOO_MANY_PERMISSIONS.format(most=MAX_PERMISSIONS)
            raise status.forbidden(GROUP, resource, name, detail)
        held, faults = self.rules_for(user, namespace)
        if lacking := missing_rules(held, wanted):
            lines = "\n".join(sorted({rule.format() for rule in lacking}))
            message = ESCALATION.format(user=quote(user.name), groups=format_list(user.groups), missing=lines)
            more = f"; resolution errors: [{faults}]" if faults else ""
            raise status.forbidden(GROUP, resource, name, message + more)

    def _cached_grants(self, user: User, namespace: str) -> _Grants:
        self._refresh()
        key = (user.name, user.groups, namespace)
        grants = self._grants.get(key)
        if grants is None:
            grants = self._collect_grants(user, namespace)
            if len(user.groups) <= _MAX_GROUPS and len(namespace) <= _LONGEST:
                if len(self._grants) >= _CACHE_SIZE:
                    self._grants.clear()
                self._grants[key] = grants
        return grants

    def _collect_grants(self, user: User, namespace: str) -> _Grants:
        keys = {_user_key(user.name), *map(_group_key, user.groups)}
        rules: list[tuple[Rule, str]] = []
        faults: list[str] = []
        for place in ("", namespace) if namespace else ("",):
            index = self._bindings.get(place)
            for binding, subject in index.bindings_for(keys) if index is not None else ():
                granted = self._rules_of_role(binding.role_kind, binding.role, place)
                if granted is None:
                    faults.append(_missing_role(binding.role_kind, binding.role))
                    continue
                reason = binding.describe(subject)
                rules.extend((rule, reason) for rule in granted)
        return _Grants(rules, faults)

    def _rules_of_role(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...] | None:
        if kind == "Role":
            return self._roles.get((namespace, name))
        role = self._cluster_roles.get(name) if kind == "ClusterRole" else None
        if role is None:
            return None
        if role.selectors is None:
            return role.rules
        if name not in self._aggregated:
            self._aggregated[name] = aggregated_rules(name, self._cluster_roles)
        return self._aggregated[name]

    def _refresh(self) -> None:
        last_revision = self._objects.last_revision
        for resource, seen in self._seen.items():
            if (newest := last_revision(resource)) != seen:
                self._update_index(resource, seen)
                self._seen[resource] = newest
                self._grants.clear()
                self._aggregated.clear()

    def _update_index(self, resource: str, seen: int) -> None:
        changed = self._objects.changed_since(resource, seen) if seen >= 0 else None
        if changed is not None:
            for namespace, name in changed:
                self._put(resource, namespace, name, self._objects.document(resource, namespace, name))
            return
        if resource == CLUSTER_ROLES:
            self._cluster_roles.clear()
        elif resource == ROLES:
            self._roles.clear()
        else:
            cluster = resource == CLUSTER_ROLE_BINDINGS
            for place in [place for place in self._bindings if (place == "") is cluster]:
                del self._bindings[place]
        for document in self._objects.documents(resource):
            meta = document["metadata"]
            self._put(resource, meta.get("namespace", ""), meta["name"], document)

    def _put(self, resource: str, namespace: str, name: str, document: Document | None) -> None:
        if resource == CLUSTER_ROLES:
            if document is None:
                self._cluster_roles.pop(name, None)
            else:
                self._cluster_roles[name] = Role.of(document)
        elif resource == ROLES:
            if document is None:
                self._roles.pop((namespace, name), None)
            else:
                self._roles[namespace, name] = rules_of(document)
        else:
            index = self._bindings.setdefault(namespace, _Index())
            index.put(name, None if document is None else _Binding.of(document))
            if not index.bindings:
                del self._bindings[namespace]


def _aggregates(document: Document) -> bool:
    return bool((document.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _changes_only_gc_fields(document: Document, old: Document) -> bool:
    """Return whether only fields change that the garbage collector must be able to change."""
    return _without_gc_fields(document) == _without_gc_fields(old)


def _without_gc_fields(document: Document) -> Document:
    meta = document["metadata"]
    kept = {key: value for key, value in meta.items() if key not in _GC_FIELDS}
    return {**document, "metadata": kept}


_GC_FIELDS: Final = frozenset({"ownerReferences", "finalizers", "managedFields", "selfLink"})


def _missing_role(kind: str, name: str) -> str:
    if kind not in ("Role", "ClusterRole"):
        return f"unsupported role reference kind: {quote(kind)}"
    return f"{kind.lower()}.{GROUP} {quote(name)} not found"


def _unsupported(kind: str) -> status.Refusal:
    return status.Refusal(code=500, reason="", message=_missing_role(kind, ""))


def _join_faults(faults: Iterable[str]) -> str:
    unique = list(dict.fromkeys(faults))
    return f"[{', '.join(unique)}]" if len(unique) > 1 else "".join(unique)
