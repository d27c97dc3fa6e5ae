"""Roles and rules: matching, coverage, aggregation, validation."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct

from kubehub import status
from kubehub.resource import Document
from kubewire.api import naming
from kubewire.api.selector import (
    OPERATORS,
    LabelSelector,
    Selector,
    SelectorError,
    compile_selector,
    quote,
)

GROUP: Final = "rbac.authorization.k8s.io"
ALL: Final = "*"

VERBS_NEEDED: Final = "verbs must contain at least one value"
GROUPS_NEEDED: Final = "resource rules must supply at least one api group"
RESOURCES_NEEDED: Final = "resource rules must supply at least one resource"
NOT_NAMESPACED: Final = "namespaced rules cannot apply to non-resource URLs"
NOT_BOTH: Final = "rules cannot apply to both regular resources and non-resource URLs"
SELECTOR_NEEDED: Final = "at least one clusterRoleSelector required if aggregationRule is non-nil"
ROLE_FIXED: Final = "cannot change roleRef"


class Rule(Struct, frozen=True):
    """A rule of a role. Rules that grant the same are equal, whatever the order in the document."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Document) -> "Rule":
        return cls(
            verbs=tuple(document.get("verbs") or ()),
            groups=tuple(document.get("apiGroups") or ()),
            resources=tuple(document.get("resources") or ()),
            names=tuple(document.get("resourceNames") or ()),
            urls=tuple(document.get("nonResourceURLs") or ()),
        )

    def permits(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Return whether the rule matches the attributes, except for the object's name."""
        if not (ALL in self.verbs or verb in self.verbs) or not (ALL in self.groups or group in self.groups):
            return False
        if ALL in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources

    def permits_path(self, verb: str, path: str) -> bool:
        return (ALL in self.verbs or verb in self.verbs) and any(_url_matches(url, path) for url in self.urls)

    def split(self) -> Iterator["Rule"]:
        """Split the rule into rules with one verb, one resource and at most one name each."""
        for group, resource, verb in itertools.product(self.groups, self.resources, self.verbs):
            for name in self.names or (None,):
                named = () if name is None else (name,)
                yield Rule(verbs=(verb,), groups=(group,), resources=(resource,), names=named)
        for url, verb in itertools.product(self.urls, self.verbs):
            yield Rule(verbs=(verb,), urls=(url,))

    def covers(self, single: "Rule") -> bool:
        """Return whether this rule grants all that ``single`` (one of ``singles``) does."""
        if not (ALL in self.verbs or single.verbs[0] in self.verbs):
            return False
        if single.urls:
            return not self.names and any(_url_matches(url, single.urls[0]) for url in self.urls)
        if self.names and not (single.names and single.names[0] in self.names):
            return False
        resource = single.resources[0]
        return (ALL in self.groups or single.groups[0] in self.groups) and (
            ALL in self.resources
            or resource in self.resources
            or ("/" in resource and f"*/{resource.partition('/')[2]}" in self.resources)
        )

    def format(self) -> str:
        """Print as refusals do: ``{APIGroups:[""], Resources:["pods"], Verbs:["get"]}``."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{label}:{format_list(values)}" for label, values in parts if values) + "}"

    def document(self) -> Document:
        written = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.urls,
        }
        return {key: list(values) for key, values in written.items() if values}


EVERYTHING: Final = (Rule(verbs=(ALL,), groups=(ALL,), resources=(ALL,)), Rule(verbs=(ALL,), urls=(ALL,)))


def _url_matches(url: str, path: str) -> bool:
    return url == path or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


def format_list(texts: Iterable[str]) -> str:
    return f"[{' '.join(map(quote, texts))}]"


def rules_of(document: Document) -> tuple[Rule, ...]:
    return tuple(map(Rule.of, document.get("rules") or ()))


def missing_rules(held: Iterable[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """Return the single rules of ``wanted`` that no held rule covers, with the verbs of a resource combined."""
    owned = tuple(held)
    together: dict[Rule, list[str]] = {}
    for single in itertools.chain.from_iterable(rule.split() for rule in wanted if rule not in owned):
        if not any(rule.covers(single) for rule in owned):
            # Paths have one line per verb, resources one for all.
            key = single if single.urls else msgspec.structs.replace(single, verbs=())
            together.setdefault(key, []).append(single.verbs[0])
    return [key if key.urls else msgspec.structs.replace(key, verbs=tuple(v)) for key, v in together.items()]


def count_permissions(rules: Iterable[Rule]) -> int:
    """Return the number of single permissions in the rules."""
    return sum(
        len(r.groups) * len(r.resources) * len(r.verbs) * max(1, len(r.names)) + len(r.urls) * len(r.verbs)
        for r in rules
    )


@dataclass(frozen=True, slots=True)
class Role:
    """A role as the authorizer caches it. ``selectors`` is None unless it is aggregated."""

    rules: tuple[Rule, ...]
    labels: Mapping[str, str]
    selectors: tuple[Selector, ...] | None = None

    @classmethod
    def of(cls, document: Document) -> "Role":
        labels = document["metadata"].get("labels") or {}
        aggregation = document.get("aggregationRule")
        if aggregation is None:
            return cls(rules_of(document), labels)
        # The role's own rules are only a copy of those that it aggregates.
        return cls((), labels, tuple(_selectors(aggregation)))


def _selectors(aggregation: Document) -> Iterator[Selector]:
    for selector in aggregation.get("clusterRoleSelectors") or ():
        try:
            yield compile_selector(msgspec.convert(selector, LabelSelector))
        except (SelectorError, msgspec.ValidationError):
            continue  # validation rejects these; a stored one selects nothing


def aggregated_rules(name: str, roles: Mapping[str, Role]) -> tuple[Rule, ...]:
    """Return the rules of a cluster role including all it aggregates, directly and indirectly, each once."""
    collected: dict[Rule, None] = {}
    visited: set[str] = set()
    names = sorted(roles)

    def visit(current: str) -> None:
        visited.add(current)
        role = roles[current]
        if role.selectors is None:
            collected.update(dict.fromkeys(role.rules))
            return
        for selector in role.selectors:
            for other in names:
                if other not in visited and selector.matches(roles[other].labels):
                    visit(other)

    visit(name)
    return tuple(collected)


def aggregate(clusterroles: Iterable[Document]) -> dict[str, list[Document]]:
    """Return the rules that every cluster role with an aggregationRule should contain, by its name."""
    roles = {document["metadata"]["name"]: Role.of(document) for document in clusterroles}
    return {
        name: [rule.document() for rule in aggregated_rules(name, roles)]
        for name, role in roles.items()
        if role.selectors is not None
    }


def default_binding(document: Document) -> None:
    """Set omitted API groups, in place."""
    if isinstance(ref := document.get("roleRef"), dict) and not ref.get("apiGroup"):
        ref["apiGroup"] = GROUP
    for subject in document.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = GROUP


def check_role(document: Document, *, namespaced: bool) -> list[status.Cause]:
    """Validate a Role or a ClusterRole, except for its metadata."""
    causes: list[status.Cause] = []
    for index, rule in enumerate(document.get("rules") or ()):
        causes.extend(_rule_causes(rule, f"rules[{index}]", namespaced))
    aggregation = document.get("aggregationRule")
    if aggregation is not None and not namespaced:
        path = "aggregationRule.clusterRoleSelectors"
        selectors = aggregation.get("clusterRoleSelectors") or ()
        if not selectors:
            causes.append(status.required(path, SELECTOR_NEEDED))
        for index, selector in enumerate(selectors):
            causes.extend(_selector_causes(selector, f"{path}[{index}]"))
    return causes


def _rule_causes(rule: Document, path: str, namespaced: bool) -> Iterator[status.Cause]:
    if not rule.get("verbs"):
        yield status.required(f"{path}.verbs", VERBS_NEEDED)
    if urls := rule.get("nonResourceURLs"):
        if namespaced:
            yield status.invalid_value(f"{path}.nonResourceURLs", urls, NOT_NAMESPACED)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            yield status.invalid_value(f"{path}.nonResourceURLs", urls, NOT_BOTH)
        return
    if not rule.get("apiGroups"):
        yield status.required(f"{path}.apiGroups", GROUPS_NEEDED)
    if not rule.get("resources"):
        yield status.required(f"{path}.resources", RESOURCES_NEEDED)


def _selector_causes(selector: Document, path: str) -> Iterator[status.Cause]:
    faults = list(selector_faults(selector, path))
    yield from faults
    if faults:
        yield status.invalid_value(path, None, "invalid label selector.")


def selector_faults(selector: Document, path: str) -> Iterator[status.Cause]:
    """Validate a label selector."""
    for key, value in sorted((selector.get("matchLabels") or {}).items()):
        for fault in naming.label_key(key):
            yield status.invalid_value(f"{path}.matchLabels", key, fault)
        for fault in naming.label_value(value):
            yield status.invalid_value(f"{path}.matchLabels", value, fault)
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or ()
        if operator in ("In", "NotIn") and not values:
            yield status.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        if operator in ("Exists", "DoesNotExist") and values:
            yield status.forbidden_field(
                f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
        if operator not in OPERATORS:
            yield status.invalid_value(f"{here}.operator", operator, "not a valid selector operator")
        for fault in naming.label_key(expression.get("key", "")):
            yield status.invalid_value(f"{here}.key", expression.get("key", ""), fault)
        for place, value in enumerate(values):
            for fault in naming.label_value(value):
                yield status.invalid_value(f"{here}.values[{place}]", value, fault)


def check_binding(document: Document, old: Document | None, *, namespaced: bool) -> list[status.Cause]:
    """Validate a RoleBinding or a ClusterRoleBinding with its defaults, except for its metadata."""
    causes: list[status.Cause] = []
    ref = document.get("roleRef") or {}
    group, kind, name = ref.get("apiGroup", ""), ref.get("kind", ""), ref.get("name", "")
    if group and group != GROUP:
        causes.append(status.not_supported("roleRef.apiGroup", group, [GROUP]))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if kind not in kinds:
        causes.append(status.not_supported("roleRef.kind", kind, kinds))
    if not name:
        causes.append(status.required("roleRef.name"))
    causes.extend(status.invalid_value("roleRef.name", name, fault) for fault in naming.path_segment(name))
    for index, subject in enumerate(document.get("subjects") or ()):
        causes.extend(_subject_causes(subject, f"subjects[{index}]", namespaced))
    if old is not None and old.get("roleRef") != document.get("roleRef"):
        value = {"APIGroup": group, "Kind": kind, "Name": name}
        causes.append(status.invalid_value("roleRef", value, ROLE_FIXED))
    return causes


def _subject_causes(subject: Document, path: str, namespaced: bool) -> Iterator[status.Cause]:
    kind, name, group = subject.get("kind", ""), subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        yield status.required(f"{path}.name")
    if kind == "ServiceAccount":
        for fault in naming.subdomain(name) if name else ():
            yield status.invalid_value(f"{path}.name", name, fault)
        if group:
            yield status.not_supported(f"{path}.apiGroup", group, [""])
        if not namespaced and not subject.get("namespace"):
            yield status.required(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group and group != GROUP:
            yield status.not_supported(f"{path}.apiGroup", group, [GROUP])
    else:
        yield status.not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))
