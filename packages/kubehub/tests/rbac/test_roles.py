"""Rules and roles: matching, coverage, aggregation, validation."""

from typing import Any

import pytest
from fake_objects import paths, rule
from hypothesis import given
from hypothesis import strategies as st

from kubehub import status
from kubehub.rbac import roles
from kubehub.rbac.roles import Rule
from kubehub.resource import Document

VERBS = st.sampled_from(["*", "get", "list"])
GROUPS = st.sampled_from(["*", "", "apps"])
RESOURCES = st.sampled_from(["*", "pods", "pods/status", "*/status", "pods/*", "jobs/status"])
NAMES = st.sampled_from(["a", "b", "*"])
URLS = st.sampled_from(["*", "/", "/a", "/a*", "/a/*", "/a/b", "/**"])


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    verbs = tuple(draw(st.lists(VERBS, min_size=1, max_size=2)))
    if draw(st.booleans()):
        return Rule(verbs=verbs, urls=tuple(draw(st.lists(URLS, min_size=1, max_size=2))))
    return Rule(
        verbs=verbs,
        groups=tuple(draw(st.lists(GROUPS, min_size=1, max_size=2))),
        resources=tuple(draw(st.lists(RESOURCES, min_size=1, max_size=2))),
        names=tuple(draw(st.lists(NAMES, max_size=2))),
    )


def everything_asked() -> list[tuple[str, ...]]:
    """Requests that distinguish any two of those rules."""
    resources = [
        ("pods", ""),
        ("pods", "status"),
        ("pods", "log"),
        ("jobs", "status"),
        ("jobs", ""),
        ("x", "y"),
    ]
    requests: list[tuple[str, ...]] = [
        (verb, group, resource, sub, name)
        for verb in ("get", "list", "zap")
        for group in ("", "apps", "x")
        for resource, sub in resources
        for name in ("", "a", "b", "c", "*")
    ]
    requests += [
        (verb, url) for verb in ("get", "list", "zap") for url in ("", "/", "/a", "/a/", "/a/b", "/ab", "/b")
    ]
    return requests


ASKED = everything_asked()


def allowed(held: list[Rule], asked: tuple[str, ...]) -> bool:
    if len(asked) == 2:
        return any(granted.permits_path(*asked) for granted in held)
    verb, group, resource, sub, name = asked
    return any(
        granted.permits(verb, group, resource, sub) and (not granted.names or name in granted.names)
        for granted in held
    )


@given(st.lists(rules(), max_size=3), st.lists(rules(), max_size=2))
def test_rules_without_missing_permissions_grant_nothing_new(held: list[Rule], wanted: list[Rule]) -> None:
    """A grant that the author doesn't hold is an escalation, in whatever notation."""
    if not roles.missing_rules(held, wanted):
        gained = [asked for asked in ASKED if allowed(wanted, asked) and not allowed(held, asked)]
        assert gained == []


@given(st.lists(rules(), max_size=3))
def test_rules_cover_themselves(held: list[Rule]) -> None:
    assert roles.missing_rules(held, held) == []
    assert roles.missing_rules(held, [single for granted in held for single in granted.split()]) == []


@given(rules())
def test_single_rules_cover_the_whole_rule(written: Rule) -> None:
    singles = list(written.split())
    assert len(singles) == roles.count_permissions([written])
    assert [a for a in ASKED if allowed([written], a)] == [a for a in ASKED if allowed(singles, a)]


@given(rules())
def test_rule_survives_a_round_trip(written: Rule) -> None:
    assert Rule.of(written.document()) == written


class TestRule:
    @pytest.mark.parametrize(
        ("resources", "asked", "expected"),
        [
            ("pods", ("pods", ""), True),
            ("pods", ("pods", "log"), False),
            ("pods/log", ("pods", "log"), True),
            ("pods/log", ("pods", ""), False),
            ("*/log", ("pods", "log"), True),
            ("*/log", ("pods", ""), False),
            ("*/log", ("pods", "xlog"), False),
            ("*", ("pods", "log"), True),
            ("pods/*", ("pods", "log"), False),  # not a wildcard in Kubernetes either
            ("po*", ("pods", ""), False),
        ],
    )
    def test_rule_matches_resources(self, resources: str, asked: tuple[str, str], expected: bool) -> None:
        assert Rule.of(rule("get", "core", resources)).permits("get", "", *asked) is expected

    @pytest.mark.parametrize(
        ("url", "path", "expected"),
        [
            ("/api", "/api", True),
            ("/api", "/api/", False),
            ("/api/*", "/api/v1", True),
            ("/api/*", "/api", False),
            ("/api*", "/apis", True),
            ("*", "/x", True),
            ("/a*b", "/axb", False),
        ],
    )
    def test_rule_matches_non_resource_urls(self, url: str, path: str, expected: bool) -> None:
        assert Rule.of(paths("get", url)).permits_path("get", path) is expected

    def test_malformed_rules_cover_nothing(self) -> None:
        """Validation rejects these; a stored one must grant nothing."""
        both = Rule(verbs=("*",), urls=("*",), names=("a",))
        assert not both.covers(Rule(verbs=("get",), urls=("/x",)))
        slash = Rule(verbs=("*",), groups=("*",), resources=("*/",))
        assert not slash.covers(Rule(verbs=("get",), groups=("",), resources=("pods",)))

    def test_rule_treats_null_as_empty(self) -> None:
        written: Document = {"verbs": None, "apiGroups": None, "resources": None, "nonResourceURLs": None}
        assert Rule.of(written) == Rule()

    def test_rule_is_printed_as_kubernetes_does(self) -> None:
        shown = Rule.of(rule("get list", "core apps", "pods", "a")).format()
        assert (
            shown == '{APIGroups:["" "apps"], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}'
        )


class TestGathering:
    def roles(self, *made: Document) -> dict[str, list[Document]]:
        return roles.aggregate(made)

    def role(self, name: str, *own: Document, into: str = "", gathers: str = "") -> Document:
        document: Document = {
            "metadata": {"name": name, "labels": {f"to-{into}": "true"}},
            "rules": list(own),
        }
        if gathers:
            selector = {"matchLabels": {f"to-{gathers}": "true"}}
            document["aggregationRule"] = {"clusterRoleSelectors": [selector]}
        return document

    def test_aggregated_rules_include_nested_roles_once(self) -> None:
        get, make = rule("get", "core", "pods"), rule("create", "core", "pods")
        aggregated = self.roles(
            self.role("view", gathers="view", into="edit"),
            self.role("edit", gathers="edit"),
            self.role("b", get, into="view"),
            self.role("a", get, make, into="edit"),
        )
        assert aggregated == {"view": [get], "edit": [get, make]}

    def test_aggregated_role_ignores_its_stored_rules(self) -> None:
        stale = rule("*", "*", "*")
        assert self.roles(self.role("view", stale, gathers="view")) == {"view": []}

    def test_cyclic_aggregation_terminates(self) -> None:
        get = rule("get", "core", "pods")
        aggregated = self.roles(
            self.role("a", gathers="a", into="b"),
            self.role("b", gathers="b", into="a"),
            self.role("c", get, into="a"),
        )
        assert aggregated == {"a": [get], "b": [get]}

    def test_aggregated_role_does_not_aggregate_itself(self) -> None:
        assert self.roles(self.role("a", gathers="a", into="a")) == {"a": []}

    def test_invalid_aggregation_selector_selects_nothing(self) -> None:
        broken: Document = {
            "metadata": {"name": "x"},
            "aggregationRule": {
                "clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Foo"}]}]
            },
        }
        assert self.roles(broken, self.role("c", rule("get", "core", "pods"), into="a")) == {"x": []}


def messages(causes: list[status.Cause]) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in causes]


class TestValidation:
    """The messages are those of kube-apiserver v1.36.3 for the same objects."""

    def test_invalid_role_is_rejected(self) -> None:
        bad = [
            {},
            {"verbs": ["get"], "nonResourceURLs": ["/x"], "apiGroups": ["a"]},
            {"verbs": ["get"], "apiGroups": ["a"]},
        ]
        causes = roles.check_role({"metadata": {"name": "bad"}, "rules": bad}, namespaced=True)
        assert messages(causes) == [
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[0].resources: Required value: resource rules must supply at least one resource",
            'rules[1].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
            'rules[1].nonResourceURLs: Invalid value: ["/x"]: '
            "rules cannot apply to both regular resources and non-resource URLs",
            "rules[2].resources: Required value: resource rules must supply at least one resource",
        ]

    def test_cluster_role_may_have_paths(self) -> None:
        causes = roles.check_role(
            {"metadata": {"name": "ok"}, "rules": [paths("get", "/x")]}, namespaced=False
        )
        assert causes == []

    def test_invalid_aggregation_rule_is_rejected(self) -> None:
        selector: Document = {
            "matchLabels": {"a": "%"},
            "matchExpressions": [{"key": "a", "operator": "Foo"}],
        }
        path = "aggregationRule.clusterRoleSelectors"
        texts = messages(
            roles.check_role(
                {"metadata": {"name": "x"}, "aggregationRule": {"clusterRoleSelectors": [selector]}},
                namespaced=False,
            )
        )
        assert [text.partition(":")[0] for text in texts] == [
            f"{path}[0].matchLabels",
            f"{path}[0].matchExpressions[0].operator",
            f"{path}[0]",
        ]
        assert texts[1].endswith('Invalid value: "Foo": not a valid selector operator')
        assert texts[2] == f"{path}[0]: Invalid value: null: invalid label selector."
        empty = roles.check_role(
            {"metadata": {"name": "x"}, "aggregationRule": {"clusterRoleSelectors": []}}, namespaced=False
        )
        assert messages(empty) == [f"{path}: Required value: {roles.SELECTOR_NEEDED}"]

    @pytest.mark.parametrize(
        ("expression", "field"),
        [
            ({"key": "a", "operator": "In"}, "values"),
            ({"key": "a", "operator": "Exists", "values": ["x"]}, "values"),
            ({"key": "-", "operator": "Exists"}, "key"),
            ({"key": "a", "operator": "In", "values": ["%"]}, "values[0]"),
        ],
    )
    def test_invalid_aggregation_selector_is_rejected(self, expression: Document, field: str) -> None:
        aggregation = {"clusterRoleSelectors": [{"matchExpressions": [expression]}]}
        causes = roles.check_role(
            {"metadata": {"name": "x"}, "aggregationRule": aggregation}, namespaced=False
        )
        assert causes[0].field == f"aggregationRule.clusterRoleSelectors[0].matchExpressions[0].{field}"

    def test_invalid_role_binding_is_rejected(self) -> None:
        binding: dict[str, Any] = {
            "metadata": {"name": "cb"},
            "roleRef": {"kind": "Foo", "name": "", "apiGroup": "x"},
            "subjects": [
                {"kind": "User"},
                {"kind": "ServiceAccount", "name": "a_b", "apiGroup": "x"},
                {"kind": "Foo", "name": "a"},
                {"kind": "Group", "name": "g", "apiGroup": "h"},
                {"kind": "ServiceAccount", "name": "x", "namespace": ""},
            ],
        }
        roles.default_binding(binding)
        texts = messages(roles.check_binding(binding, None, namespaced=True))
        assert texts[:5] == [
            'roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"',
            'roleRef.kind: Unsupported value: "Foo": supported values: "Role", "ClusterRole"',
            "roleRef.name: Required value",
            "subjects[0].name: Required value",
            texts[4],
        ]
        assert texts[4].startswith('subjects[1].name: Invalid value: "a_b": a lowercase RFC 1123 subdomain')
        assert texts[5:] == [
            'subjects[1].apiGroup: Unsupported value: "x": supported values: ""',
            'subjects[2].kind: Unsupported value: "Foo": supported values: "ServiceAccount", "User", "Group"',
            'subjects[3].apiGroup: Unsupported value: "h": supported values: "rbac.authorization.k8s.io"',
        ]

    def test_invalid_cluster_role_binding_is_rejected(self) -> None:
        binding = {
            "metadata": {"name": "cb"},
            "roleRef": {"kind": "Role", "name": "a%b"},
            "subjects": [{"kind": "ServiceAccount", "name": "x"}],
        }
        assert messages(roles.check_binding(binding, None, namespaced=False)) == [
            'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
            "roleRef.name: Invalid value: \"a%b\": may not contain '%'",
            "subjects[0].namespace: Required value",
        ]

    def test_role_binding_defaults_api_groups(self) -> None:
        binding: Document = {
            "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [
                {"kind": "User", "name": "u"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
            ],
        }
        roles.default_binding(binding)
        assert binding["roleRef"]["apiGroup"] == roles.GROUP
        assert binding["subjects"][0]["apiGroup"] == roles.GROUP
        assert "apiGroup" not in binding["subjects"][1]
        assert roles.check_binding(binding, None, namespaced=False) == []
        del binding["subjects"]
        roles.default_binding(binding)

    def test_role_ref_of_a_binding_is_immutable(self) -> None:
        old: Document = {
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": roles.GROUP, "kind": "ClusterRole", "name": "view"},
        }
        new: Document = {
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": roles.GROUP, "kind": "ClusterRole", "name": "edit"},
        }
        assert messages(roles.check_binding(new, old, namespaced=False)) == [
            'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"edit"}: '
            "cannot change roleRef"
        ]
        assert roles.check_binding(new, new, namespaced=False) == []
