"""Admission policies without a hub: matching, cost, and the effects of a denial.

tests/security compares what clients see with a real kube-apiserver.
"""

from typing import Any

import pytest
from fake_objects import FakeObjects, account, paths, rule, user

from kubehub import builtin, conversion
from kubehub.admission.cel_authorizer import BAD_ACCOUNT, BAD_NAMESPACE, CHECK_COST, NO_PATH, NO_RESOURCE
from kubehub.admission.control import (
    BINDINGS,
    DENIED,
    DENIED_UNBOUND,
    FAILURES,
    POLICIES,
    WARNED,
    Admission,
)
from kubehub.admission.params import NAMESPACE_NEEDED, NO_NAMESPACE, UNKNOWN_KIND
from kubehub.admission.policies import BUDGET, MESSAGE_FAILED, OUT_OF_BUDGET, OUT_OF_WORK, WORK_BUDGET
from kubehub.admission.request import AdmissionRequest
from kubehub.rbac.authorizer import Authorizer
from kubehub.registry import Registry
from kubehub.resource import Document
from kubehub.status import Refusal
from kubehub.user import User

JO = User(name="jo", uid="7", groups=("sailors",), extra={"ship": ("gull",)})
MAPS = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps"]}
CHECK = "authorizer.group('').resource('pods').check('get').allowed()"


class AdmissionHarness:
    def __init__(self) -> None:
        self.kept = FakeObjects()
        self.registry = Registry(conversion.with_conversion(resource) for resource in builtin.resources())
        self.admission = Admission(
            objects=self.kept, registry=self.registry, authorizer=Authorizer(self.kept)
        )
        self.warnings: list[str] = []
        self.annotations: dict[str, str] = {}

    def policy(self, *validations: str | Document, name: str = "p", rules: Any = None, **spec: Any) -> None:
        made = [
            {"expression": validation} if isinstance(validation, str) else validation
            for validation in validations
        ]
        match = {"resourceRules": rules or [MAPS], **spec.pop("match", {})}
        body = {"failurePolicy": "Fail", "matchConstraints": match, "validations": made, **spec}
        self.kept.put(POLICIES, {"metadata": {"name": name}, "spec": body})

    def bind(self, *actions: str, name: str = "b", policy: str = "p", **spec: Any) -> None:
        body = {"policyName": policy, "validationActions": list(actions or ("Deny",)), **spec}
        self.kept.put(BINDINGS, {"metadata": {"name": name}, "spec": body})

    def write(
        self,
        new: Document | None,
        old: Document | None = None,
        *,
        of: tuple[str, str, str] = ("", "v1", "configmaps"),
        subresource: str = "",
    ) -> str:
        """Return the message of the refusal; empty for none."""
        resource = self.registry.find(*of)
        assert resource is not None
        attempt = AdmissionRequest(
            user=JO,
            resource=resource,
            subresource=subresource,
            place=("", ""),
            new=new,
            old=old,
            dry_run=False,
            manager="tests",
            warnings=self.warnings,
            annotations=self.annotations,
        )
        try:
            self.admission.admit(attempt)
        except Refusal as refused:
            return str((refused.details or {})["causes"][0]["message"])
        return ""


@pytest.fixture
def harness() -> AdmissionHarness:
    made = AdmissionHarness()
    made.kept.put("namespaces", {"metadata": {"name": "sea", "labels": {"wet": "yes"}}})
    return made


def boat(namespace: str = "sea", *, labels: dict[str, str] | None = None, **data: str) -> Document:
    return {"metadata": {"name": "boat", "namespace": namespace, "labels": labels or {}}, "data": data}


def denied(message: str, *, policy: str = "p", binding: str = "b") -> str:
    return DENIED.format(policy=policy, binding=binding, message=message)


# Matching


def test_unbound_policy_is_not_enforced(harness: AdmissionHarness) -> None:
    assert harness.write(boat()) == ""
    harness.policy("false")
    assert harness.write(boat()) == ""
    harness.bind()
    assert harness.write(boat()) == denied("failed expression: false")
    harness.policy("1 == 2")
    assert harness.write(boat()) == denied("failed expression: 1 == 2")
    harness.kept.delete(BINDINGS, "b")
    assert harness.write(boat()) == ""


def test_first_policy_by_name_denies(harness: AdmissionHarness) -> None:
    for name in ("q", "p"):
        harness.policy({"expression": "false", "message": name}, name=name)
        for binding in ("d", "c"):
            harness.bind(name=f"{name}{binding}", policy=name)
    assert harness.write(boat()) == denied("p", policy="p", binding="pc")


def test_write_without_matching_policy_reads_no_objects(harness: AdmissionHarness) -> None:
    harness.policy("false")
    harness.bind()
    pods = ("", "v1", "pods")
    assert harness.write(boat(), of=pods) == ""
    harness.kept.reads.clear()
    assert harness.write(boat(), of=pods) == ""
    assert harness.kept.reads == []


@pytest.mark.parametrize(
    ("more", "new", "concerned"),
    [
        ({"excludeResourceRules": [{**MAPS, "operations": ["UPDATE"]}]}, boat(), True),
        ({"excludeResourceRules": [{**MAPS, "resourceNames": ["boat"]}]}, boat(), False),
        ({"resourceRules": [{**MAPS, "resourceNames": ["ship"]}]}, boat(), False),
        ({"resourceRules": [{**MAPS, "operations": ["UPDATE", "DELETE"]}]}, boat(), False),
        ({"resourceRules": [{**MAPS, "scope": "Cluster"}]}, boat(), False),
        ({"resourceRules": [{**MAPS, "scope": "Namespaced"}]}, boat(), True),
        ({"resourceRules": [{**MAPS, "resources": ["configmaps/*"]}]}, boat(), True),
        ({"resourceRules": [{**MAPS, "resources": ["*/status"]}]}, boat(), False),
        ({"namespaceSelector": {"matchLabels": {"wet": "yes"}}}, boat(), True),
        ({"namespaceSelector": {"matchLabels": {"wet": "no"}}}, boat(), False),
        ({"objectSelector": {"matchLabels": {"red": "yes"}}}, boat(), False),
        ({"objectSelector": {"matchLabels": {"red": "yes"}}}, boat(labels={"red": "yes"}), True),
    ],
)
def test_policy_and_binding_match_requests_by_the_same_rules(
    harness: AdmissionHarness, more: dict[str, Any], new: Document, concerned: bool
) -> None:
    harness.policy({"expression": "false", "message": "no"}, match=more)
    harness.bind()
    assert bool(harness.write(new)) is concerned
    harness.policy({"expression": "false", "message": "no"})
    harness.bind(matchResources=more)
    assert bool(harness.write(new)) is concerned


def test_policy_selector_matches_old_and_new_labels(harness: AdmissionHarness) -> None:
    harness.policy("false", match={"objectSelector": {"matchLabels": {"red": "yes"}}})
    harness.bind()
    assert harness.write(boat(), boat(labels={"red": "yes"})) != ""
    assert harness.write(None, boat(labels={"red": "yes"})) != ""


def test_namespace_selector_matches_the_written_namespace(harness: AdmissionHarness) -> None:
    rules = [{**MAPS, "resources": ["namespaces"]}]
    harness.policy(
        "namespaceObject == null",
        "false",
        rules=rules,
        match={"namespaceSelector": {"matchLabels": {"a": "b"}}},
    )
    harness.bind()
    of = ("", "v1", "namespaces")
    assert harness.write({"metadata": {"name": "new", "labels": {"a": "b"}}}, of=of) == denied(
        "failed expression: false"
    )
    assert harness.write({"metadata": {"name": "sea"}}, of=of) == ""


def test_policy_sees_the_object_in_the_version_it_matches(harness: AdmissionHarness) -> None:
    rules = [
        {"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["events"]}
    ]
    spoken = (
        "object.apiVersion + ' ' + object.note + ' ' + request.resource.group + ' ' + "
        "request.requestResource.version + string(has(request.requestResource.group))"
    )
    harness.policy({"expression": "false", "messageExpression": spoken}, rules=rules)
    harness.bind()
    event = {"metadata": {"name": "e", "namespace": "sea"}, "message": "hi"}
    assert harness.write(event, of=("", "v1", "events")) == denied("events.k8s.io/v1 hi events.k8s.io v1true")
    assert harness.write(event, of=("events.k8s.io", "v1", "events")) != ""
    harness.policy("false", rules=rules, match={"matchPolicy": "Exact"})
    assert harness.write(event, of=("", "v1", "events")) == ""
    assert harness.write(event, of=("events.k8s.io", "v1", "events")) != ""


# Cost


def test_all_expressions_of_a_policy_share_a_budget(harness: AdmissionHarness) -> None:
    enough = BUDGET // CHECK_COST
    harness.kept.cluster_role("reader", rule("get", "core", "pods"))
    harness.kept.bind("reader", user("jo"))
    harness.policy(*[CHECK] * enough)
    harness.bind()
    assert harness.write(boat()) == ""
    harness.policy(*[CHECK] * (enough + 1))
    assert harness.write(boat()) == denied(OUT_OF_BUDGET)
    harness.policy(*[CHECK] * (enough + 1), failurePolicy="Ignore")
    assert harness.write(boat()) == ""


def test_policy_beyond_the_work_limit_is_denied_at_any_cost(harness: AdmissionHarness) -> None:
    busy = "lists.range(2000).all(a, !lists.range(100).exists_one(b, false))"
    harness.policy(busy)
    harness.bind()
    assert harness.write(boat()) == denied(OUT_OF_WORK.format(WORK_BUDGET, busy))
    harness.policy("true", "variables.busy || true", variables=[{"name": "busy", "expression": busy}])
    assert "work of more than" in harness.write(boat())
    harness.policy(busy, failurePolicy="Ignore")
    assert harness.write(boat()) == ""


def test_policy_expression_has_its_own_cost_limit(harness: AdmissionHarness) -> None:
    text = " && ".join([CHECK.replace("allowed()", "reason() == ''")] * 3)
    harness.policy(text)
    harness.bind()
    told = f"expression '{text}' resulted in error: operation cancelled: actual cost limit exceeded"
    assert harness.write(boat()) == denied(told)


def test_policy_variable_is_evaluated_once_and_lazily(harness: AdmissionHarness) -> None:
    harness.policy(
        *["!variables.may"] * 100,
        variables=[
            {"name": "may", "expression": CHECK},
            {"name": "never", "expression": "object.nope == variables.may"},
        ],
    )
    harness.bind()
    assert harness.write(boat()) == ""


def test_failing_policy_variable_is_evaluated_once(harness: AdmissionHarness) -> None:
    """A second evaluation of so many would exceed the budget."""
    harness.policy(
        *["variables.fails || true"] * 100, variables=[{"name": "fails", "expression": f"[{CHECK}][1]"}]
    )
    harness.bind()
    assert harness.write(boat()) == ""


def test_policy_message_expression_counts_towards_the_budget(harness: AdmissionHarness) -> None:
    spoken = {"expression": "false", "messageExpression": "string(variables.may)"}
    harness.policy(
        *["variables.a || true"] * 28, spoken,
        variables=[{"name": "a", "expression": CHECK}, {"name": "may", "expression": f"{CHECK} && {CHECK}"}],
    )  # fmt: skip
    harness.bind()
    assert harness.write(boat()) == denied("false")
    harness.policy(*[f"{CHECK} || true"] * 28, spoken, variables=[{"name": "may", "expression": CHECK}])
    assert harness.write(boat()) == denied(MESSAGE_FAILED.format(OUT_OF_BUDGET))


# The authorizer variable


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("group('').resource('pods').namespace('sea').check('get').allowed()", "true"),
        ("group('').resource('pods').check('get').allowed()", "false"),
        (
            "group('').resource('pods').namespace('sea').name('a').subresource('log').check('get').allowed()",
            "false",
        ),
        ("group('').resource('pods').namespace('sea').labelSelector('a=b').check('get').allowed()", "true"),
        ("group('').resource('pods').namespace('sea').fieldSelector('a=b').check('get').errored()", "false"),
        ("group('').resource('pods').check('get').error()", ""),
        ("path('/healthz').check('get').allowed()", "true"),
        ("path('/metrics').check('get').allowed()", "false"),
        ("serviceAccount('sea', 'mate').group('').resource('nodes').check('list').allowed()", "true"),
        ("serviceAccount('sea', 'cook').group('').resource('nodes').check('list').allowed()", "false"),
        (
            "group('').resource('pods').namespace('sea').check('get').reason()",
            'RBAC: allowed by RoleBinding "reader/sea" of Role "reader" to User "jo"',
        ),
        ("path(' ').check('get').allowed()", NO_PATH),
        ("group('').resource(' ').check('get').allowed()", NO_RESOURCE),
        ("serviceAccount('sea', 'M!').path('/a').check('get').allowed()", BAD_ACCOUNT),
        ("serviceAccount('S!', 'mate').path('/a').check('get').allowed()", BAD_NAMESPACE),
    ],
)
def test_policy_authorizer_checks_permissions(harness: AdmissionHarness, asked: str, answer: str) -> None:
    harness.kept.role("sea", "reader", rule("get", "core", "pods"))
    harness.kept.bind("reader", user("jo"), namespace="sea", kind="Role")
    harness.kept.cluster_role("healthy", paths("get", "/healthz"))
    harness.kept.bind("healthy", user("jo"))
    harness.kept.cluster_role("nodes", rule("list", "core", "nodes"))
    harness.kept.bind("nodes", account("mate", "sea"))
    harness.policy(
        {"expression": "variables.told == 'x'", "messageExpression": "'=' + variables.told"},
        variables=[{"name": "told", "expression": f"string(authorizer.{asked})"}],
    )
    harness.bind()
    told = harness.write(boat()).partition("request: ")[2]
    assert told == f"={answer}" or told.endswith(f"fails to evaluate: {answer}")


def test_policy_sees_user_info(harness: AdmissionHarness) -> None:
    parts = ("username", "uid", "groups[0]", "extra.ship[0]")
    spoken = " + ".join(f"request.userInfo.{part}" for part in parts)
    harness.policy({"expression": "false", "messageExpression": spoken})
    harness.bind()
    assert harness.write(boat()) == denied("jo7sailorsgull")


# Parameters


@pytest.mark.parametrize(
    ("kind", "reference", "told"),
    [
        (("v1", "ConfigMap"), {"name": "limits", "namespace": "sea"}, "limits"),
        (("v1", "ConfigMap"), {"name": "limits"}, "limits"),
        (("v1", "ConfigMap"), {"selector": {"matchLabels": {"of": "speed"}}}, "limits"),
        (("v1", "ConfigMap"), {"name": "nope"}, ""),
        (("v1", "ConfigMap"), None, "nothing"),
        (("v1", "Namespace"), {"name": "sea"}, "sea"),
        (
            ("v1", "Namespace"),
            {"name": "sea", "namespace": "sea"},
            f"failed to configure binding: {NO_NAMESPACE}",
        ),
    ],
)
def test_policy_parameters_are_resolved(
    harness: AdmissionHarness, kind: tuple[str, str], reference: dict[str, Any] | None, told: str
) -> None:
    limits = {"name": "limits", "namespace": "sea", "labels": {"of": "speed"}}
    harness.kept.put("configmaps", {"metadata": limits, "data": {}})
    spoken = "params == null ? 'nothing' : string(params.metadata.name)"
    version, name = kind
    harness.policy(
        {"expression": "false", "messageExpression": spoken}, paramKind={"apiVersion": version, "kind": name}
    )
    if reference is None:
        harness.bind()
    else:
        harness.bind(paramRef={**reference, "parameterNotFoundAction": "Allow"})
    assert harness.write(boat()) == (denied(told) if told else "")


def test_unresolvable_policy_parameters_deny_the_request(harness: AdmissionHarness) -> None:
    nodes = [{**MAPS, "resources": ["nodes"]}]
    harness.policy("true", rules=nodes, paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
    harness.bind(paramRef={"name": "limits", "parameterNotFoundAction": "Allow"})
    node, of = {"metadata": {"name": "n"}}, ("", "v1", "nodes")
    assert harness.write(node, of=of) == denied(f"failed to configure binding: {NAMESPACE_NEEDED}")
    unknown = {"apiVersion": "sea.example/v1", "kind": "Boat"}
    told = UNKNOWN_KIND.format(group_version="sea.example/v1", kind="Boat")
    harness.policy("true", rules=nodes, paramKind=unknown)
    assert harness.write(node, of=of) == DENIED_UNBOUND.format(
        policy="p", message=f"failed to configure policy: {told}"
    )
    harness.policy("true", rules=nodes, paramKind=unknown, failurePolicy="Ignore")
    assert harness.write(node, of=of) == ""


# Effects


def test_policy_warnings_and_audit_annotations_are_recorded(harness: AdmissionHarness) -> None:
    harness.policy(
        "true",
        {"expression": "object.data.a == '1'", "message": "one"},
        auditAnnotations=[
            {"key": "a", "valueExpression": "'a is ' + object.data.a"},
            {"key": "b", "valueExpression": "''"},
            {"key": "c", "valueExpression": "null"},
        ],
    )
    harness.bind("Warn", "Audit")
    assert harness.write(boat(a="2")) == ""
    assert harness.warnings == [WARNED.format(policy="p", binding="b", message="one")]
    assert harness.annotations == {
        "p/a": "a is 2",
        FAILURES: (
            '[{"message":"one","policy":"p","binding":"b","expressionIndex":1,'
            '"validationActions":["Warn","Audit"]}]'
        ),
    }


def test_failing_audit_annotation_denies(harness: AdmissionHarness) -> None:
    text = "'a is ' + object.data.a"
    annotations = [{"key": "a", "valueExpression": text}]
    harness.policy("true", auditAnnotations=annotations)
    harness.bind()
    assert harness.write(boat()) == denied(f"expression '{text}' resulted in error: no such key: a")
    harness.policy("true", auditAnnotations=annotations, failurePolicy="Ignore")
    assert harness.write(boat()) == ""


def test_failing_match_condition_follows_the_failure_policy(harness: AdmissionHarness) -> None:
    missing = "object.data.a == '1'"
    told = f"expression '{missing}' resulted in error: no such key: a"
    conditions = [{"name": "a", "expression": missing}, {"name": "b", "expression": "true"}]
    harness.policy("false", matchConditions=conditions)
    harness.bind()
    assert harness.write(boat()) == denied(told)
    conditions = [*conditions, {"name": "c", "expression": missing.replace("1", "2")}]
    harness.policy("false", matchConditions=conditions)
    assert harness.write(boat()) == denied(f"[{told}, {told.replace('1', '2')}]")
    # A false condition decides, whatever fails beside it.
    harness.policy("false", matchConditions=[*conditions, {"name": "d", "expression": "false"}])
    assert harness.write(boat()) == ""
    harness.policy("false", matchConditions=conditions, failurePolicy="Ignore")
    assert harness.write(boat()) == ""
