"""Admission policies apply to every kind of write, with the same messages on both hubs."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from security.grants import grant, rule
from security.wire import ADMIN, MALLORY, Answer, Hub, ask

GROUP = "admissionregistration.k8s.io"
BASE = f"/apis/{GROUP}/v1"
POLICIES, BINDINGS = f"{BASE}/validatingadmissionpolicies", f"{BASE}/validatingadmissionpolicybindings"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
PROBE = {
    "expression": "object == null || object.metadata.?labels.probe.orValue('') == ''",
    "message": "probe",
}
DEADLINE = 120.0
MIXED = (
    "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric "
    "characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  "
    "or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)

Force = Callable[..., Awaitable[str]]


@pytest.fixture
async def force(hub: Hub, namespace: str) -> AsyncIterator[Force]:
    """Creates a policy with a binding of the same name, waits until it is enforced, and returns the name."""
    made: list[str] = []

    async def force(
        *validations: dict[str, Any], rules: list[dict[str, Any]] | None = None, **more: Any
    ) -> str:
        name = f"p-{uuid.uuid4().hex[:8]}"
        binding = {"policyName": name, "validationActions": ["Deny"], **more.pop("binding", {})}
        match = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [MAPS, *(rules or ())],
        }
        spec = {"matchConstraints": match, "validations": [PROBE, *validations], **more}
        made.append(name)
        for path, body in ((POLICIES, spec), (BINDINGS, binding)):
            answer = await ask(hub, "POST", path, body={"metadata": {"name": name}, "spec": body})
            assert answer.code == 201, answer
        # A real hub enforces a new policy after a delay.
        probe = {"metadata": {"name": "probe", "labels": {"probe": "yes"}}, "data": {"size": "1"}}
        async with asyncio.timeout(DEADLINE):
            while True:
                answer = await ask(hub, "POST", f"{maps(namespace)}?dryRun=All", body=probe)
                words = answer.body.decode() + answer.headers.get("warning", "")
                if f"binding '{name}'" in words and ": probe" in words:
                    return name

    yield force
    for name in made:  # the test may have deleted it
        for path in (BINDINGS, POLICIES):
            await ask(hub, "DELETE", f"{path}/{name}")


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def boat(name: str = "boat", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def denial(policy: str, message: str) -> str:
    return f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {message}"


@pytest.mark.parametrize(
    ("validation", "code", "reason", "message"),
    [
        (
            {"expression": "object.data.size == '1' "},
            422,
            "Invalid",
            "failed expression: object.data.size == '1'",
        ),
        ({"expression": "1 > 2", "message": " too small\t"}, 422, "Invalid", "too small"),
        ({"expression": "false", "reason": "Forbidden", "message": "no"}, 403, "Forbidden", "no"),
        (
            {"expression": "false", "reason": "RequestEntityTooLarge", "message": "no"},
            413,
            "RequestEntityTooLarge",
            "no",
        ),
        ({"expression": "false", "messageExpression": "'a ' + object.data.size"}, 422, "Invalid", "a 2"),
        ({"expression": "false", "messageExpression": "'a\\nb'", "message": "c"}, 422, "Invalid", "c"),
        (
            {"expression": "false", "messageExpression": "string(object.no)", "message": "c"},
            422,
            "Invalid",
            "c",
        ),
        (
            {"expression": "object.data.length == '1'"},
            422,
            "Invalid",
            "expression 'object.data.length == '1'' resulted in error: no such key: length",
        ),
        (
            {"expression": "object.data.size.matches('^[a-z]+$') || variables.half > 1", "message": "c"},
            422,
            "Invalid",
            "expression 'object.data.size.matches('^[a-z]+$') || variables.half > 1' resulted in error: "
            'composited variable "half" fails to evaluate: division by zero',
        ),
    ],
)
async def test_denial_names_policy_and_reason(
    hub: Hub, namespace: str, force: Force, validation: dict[str, Any], code: int, reason: str, message: str
) -> None:
    half = [{"name": "half", "expression": "1 / (object.data.size == '2' ? 0 : 1)"}]
    name = await force(validation, variables=half)
    answer = await ask(hub, "POST", maps(namespace), body=boat(size="2"))
    expected = denial(name, message)
    assert answer.document == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'configmaps "boat" is forbidden: {expected}',
        "reason": reason,
        "details": {"name": "boat", "kind": "configmaps", "causes": [{"message": expected}]},
        "code": code,
    }
    assert answer.code == code


async def test_policy_applies_to_every_kind_of_write(hub: Hub, namespace: str, force: Force) -> None:
    await force(
        {"expression": "request.operation != 'DELETE' || oldObject.data.size != '3'", "message": "gone"},
        {"expression": "object == null || object.data.size in ['1', '3']", "message": "size"},
        {
            "expression": "oldObject == null || object == null || object.data.size != oldObject.data.size",
            "message": "idle",
        },
    )
    path, base = f"{maps(namespace)}/boat", maps(namespace)
    refused = [
        await ask(hub, "POST", base, body=boat(size="2")),
        await ask(hub, "POST", f"{base}?dryRun=All", body=boat(size="2")),
        await ask(hub, "PATCH", f"{path}?fieldManager=a", body=boat(size="2"), type_=APPLY),
    ]
    assert (await ask(hub, "POST", base, body=boat(size="1"))).code == 201
    refused += [
        await ask(hub, "PUT", path, body=boat(size="2")),
        await ask(hub, "PATCH", path, body={"data": {"size": "2"}}, type_=MERGE),
        await ask(hub, "PATCH", f"{path}?fieldManager=a&force=true", body=boat(size="2"), type_=APPLY),
        await ask(hub, "PATCH", path, body={"data": {"size": "1"}}, type_=MERGE),
        await ask(hub, "PATCH", path, body={}, type_=MERGE),
    ]
    assert (await ask(hub, "PATCH", path, body={"data": {"size": "3"}}, type_=MERGE)).code == 200
    refused += [
        await ask(hub, "DELETE", path),
        await ask(hub, "DELETE", f"{base}?fieldSelector=metadata.name%3Dboat"),
    ]
    assert [(answer.code, answer.message.rpartition(" ")[2]) for answer in refused] == [
        *[(422, "size")] * 6,
        *[(422, "idle")] * 2,
        *[(422, "gone")] * 2,
    ]
    assert (await ask(hub, "GET", path)).document["data"] == {"size": "3"}
    for answer in (
        await ask(hub, "PATCH", path, body={"data": {"size": "1"}}, type_=MERGE),
        await ask(hub, "DELETE", path),
    ):
        assert answer.code == 200, answer


async def test_policy_sees_request_attributes(hub: Hub, namespace: str, force: Force) -> None:
    """The message expression joins all attributes."""
    spoken = (
        "[request.operation, request.kind.kind, request.resource.resource, request.requestResource.version, "
        "request.name, request.namespace, request.userInfo.username, string(request.dryRun), "
        "string(has(request.subResource)), string(request.options.kind), string(object.kind), "
        "string(object.apiVersion), string(oldObject == null), namespaceObject.metadata.name, "
        "namespaceObject.status.phase, string('system:authenticated' in request.userInfo.groups)].join('|')"
    )
    await force({"expression": "false", "messageExpression": spoken})
    answer = await ask(hub, "POST", f"{maps(namespace)}?dryRun=All", body=boat())
    known = answer.message.partition("denied request: ")[2].split("|")
    assert known == [
        "CREATE", "ConfigMap", "configmaps", "v1", "boat", namespace, ADMIN, "true", "false", "CreateOptions",
        "ConfigMap", "v1", "true", namespace, "Active", "true",
    ]  # fmt: skip


async def test_policy_matches_subresources_separately(hub: Hub, namespace: str, force: Force) -> None:
    """A policy for deployments/scale gets Scale objects, and one for deployments does not."""
    both = [
        {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["deployments", "deployments/scale"],
        }
    ]
    await force(
        {
            "expression": "request.resource.resource != 'deployments' || object.spec.replicas < 3",
            "messageExpression": "request.kind.kind + ' ' + object.kind + ' ' + request.subResource",
        },
        rules=both,
    )
    labels = {"matchLabels": {"app": "web"}}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    }
    spec = {"replicas": 0, "selector": labels, "template": template}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    made = await ask(hub, "POST", path, body={"metadata": {"name": "web"}, "spec": spec})
    assert made.code == 201
    scaled = await ask(hub, "PATCH", f"{path}/web/scale", body={"spec": {"replicas": 3}}, type_=MERGE)
    assert (scaled.code, scaled.message.partition("request: ")[2]) == (422, "Scale Scale scale")
    assert scaled.message.startswith('deployments.apps "web" is forbidden: ')
    assert (await ask(hub, "PATCH", f"{path}/web", body={"spec": {"replicas": 3}}, type_=MERGE)).code == 422
    assert (
        await ask(hub, "PATCH", f"{path}/web/scale", body={"spec": {"replicas": 2}}, type_=MERGE)
    ).code == 200


async def test_policy_applies_to_pod_bindings_and_evictions(hub: Hub, namespace: str, force: Force) -> None:
    parts = [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods/binding", "pods/eviction", "serviceaccounts/token"],
        }
    ]
    await force(
        {
            "expression": "!has(request.subResource)",
            "messageExpression": "request.subResource + ' ' + object.kind + ' ' + object.apiVersion + ' ' + "
            "request.namespace + '/' + request.name",
        },
        rules=parts,
    )
    base = f"/api/v1/namespaces/{namespace}"
    await ask(hub, "POST", f"{base}/serviceaccounts", body={"metadata": {"name": "sailor"}})
    pod = {
        "metadata": {"name": "web"},
        "spec": {"serviceAccountName": "sailor", "containers": [{"name": "web", "image": "web"}]},
    }
    assert (await ask(hub, "POST", f"{base}/pods", body=pod)).code == 201
    answers = [
        await ask(
            hub,
            "POST",
            f"{base}/pods/web/binding",
            body={"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n"}},
        ),
        await ask(hub, "POST", f"{base}/pods/web/eviction", body={"metadata": {"name": "web"}}),
        await ask(hub, "POST", f"{base}/serviceaccounts/sailor/token", body={"spec": {}}),
    ]
    assert [answer.code for answer in answers] == [422] * 3
    assert [
        (answer.message.partition(" is ")[0], answer.message.partition("request: ")[2]) for answer in answers
    ] == [
        ('pods "web"', f"binding Binding v1 {namespace}/web"),
        ('pods "web"', f"eviction Eviction policy/v1 {namespace}/web"),
        ('serviceaccounts "sailor"', f"token TokenRequest authentication.k8s.io/v1 {namespace}/sailor"),
    ]
    elsewhere = "/api/v1/namespaces/default/serviceaccounts"
    other = f"sailor-{namespace}"
    await ask(hub, "POST", elsewhere, body={"metadata": {"name": other}})
    assert (await ask(hub, "POST", f"{elsewhere}/{other}/token", body={"spec": {}})).code == 201
    await ask(hub, "DELETE", f"{elsewhere}/{other}")


async def test_match_conditions_and_authorizer_checks_are_evaluated(
    hub: Hub, namespace: str, force: Force
) -> None:
    await grant(
        hub, namespace, rule("create", "configmaps"), rule("sail", "boats", "gull", group="sea.example")
    )
    await force(
        {
            "expression": "authorizer.group('sea.example').resource('boats').namespace(request.namespace)"
            ".name(object.metadata.name).check('sail').allowed()",
            "reason": "Forbidden",
            "messageExpression": "'no right to ' + object.metadata.name",
        },
        {"expression": "authorizer.requestResource.check('create').allowed()", "message": "never"},
        matchConditions=[
            {
                "name": "mallory",
                "expression": "request.userInfo.username == 'mallory' || has(object.metadata.labels)",
            }
        ],
    )
    allowed = await ask(hub, "POST", maps(namespace), user=MALLORY, body=boat("gull"))
    assert allowed.code == 201, allowed
    refused = await ask(hub, "POST", maps(namespace), user=MALLORY, body=boat("tern"))
    assert (refused.code, refused.message.partition("request: ")[2]) == (403, "no right to tern")
    assert (await ask(hub, "POST", maps(namespace), body=boat("tern"))).code == 201


@pytest.mark.parametrize(
    ("failing", "code"), [({"failurePolicy": "Ignore"}, 201), ({"failurePolicy": "Fail"}, 422)]
)
async def test_failing_policy_follows_its_failure_policy(
    hub: Hub, namespace: str, force: Force, failing: dict[str, Any], code: int
) -> None:
    await force(
        {"expression": "object.data.length == '1'"}, {"expression": "object.data.width == '1'"}, **failing
    )
    assert (await ask(hub, "POST", maps(namespace), body=boat(size="1"))).code == code


async def test_policy_is_evaluated_with_each_parameter_object(hub: Hub, namespace: str, force: Force) -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    limits = await ask(
        hub,
        "POST",
        maps(namespace),
        body={"metadata": {"name": "limits", "labels": {"limits": "yes"}}, "data": {"size": "2"}},
    )
    assert limits.code == 201
    tall = {
        "expression": "params == null || int(object.data.size) <= int(params.data.size)",
        "messageExpression": "params.kind + ' ' + params.metadata.name",
    }
    reference = {"name": "limits", "parameterNotFoundAction": "Deny"}
    name = await force(tall, paramKind=kind, binding={"paramRef": reference})
    assert (await ask(hub, "POST", maps(namespace), body=boat("small", size="2"))).code == 201
    refused = await ask(hub, "POST", maps(namespace), body=boat("large", size="3"))
    assert refused.message.endswith(denial(name, "ConfigMap limits"))
    # Without parameters, the binding's parameterNotFoundAction decides.
    body = {"spec": {"paramRef": {"name": None, "selector": {"matchLabels": {"limits": "none"}}}}}
    changed = await ask(hub, "PATCH", f"{BINDINGS}/{name}", body=body, type_=MERGE)
    assert changed.code == 200, changed
    none = denial(
        name,
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
    )
    async with asyncio.timeout(DEADLINE):
        while (
            none
            not in (
                missing := await ask(
                    hub, "POST", f"{maps(namespace)}?dryRun=All", body=boat("large", size="3")
                )
            ).body.decode()
        ):
            pass
    assert (missing.code, missing.document["reason"]) == (422, "Invalid")


async def test_warn_action_returns_a_warning(hub: Hub, namespace: str, force: Force) -> None:
    binding = {"validationActions": ["Warn", "Audit"]}
    name = await force({"expression": "object.data.size == '1'", "message": "small?"}, binding=binding)
    answer = await ask(hub, "POST", maps(namespace), body=boat(size="2"))
    warning = f"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{name}': small?"
    assert (answer.code, answer.headers["warning"]) == (201, f'299 - "{warning}"')


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        (
            {},
            [
                ("spec.matchConstraints", "Required value"),
                (
                    "spec.validations",
                    "Required value: validations or auditAnnotations must contain at least one item",
                ),
                (
                    "spec.auditAnnotations",
                    "Required value: validations or auditAnnotations must contain at least one item",
                ),
            ],
        ),
        (
            {
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": ["", "*"],
                            "apiVersions": [],
                            "operations": ["*", "CREATE"],
                            "resources": ["*", "pods", "pods/*", "pods/status"],
                        }
                    ]
                },
                "validations": [{"expression": "true"}],
            },
            [
                (
                    "spec.matchConstraints.resourceRules[0].operations",
                    'Invalid value: ["*","CREATE"]: if \'*\' is present, must not specify other operations',
                ),
                (
                    "spec.matchConstraints.resourceRules[0].apiGroups",
                    'Invalid value: ["","*"]: if \'*\' is present, must not specify other API groups',
                ),
                ("spec.matchConstraints.resourceRules[0].apiVersions", "Required value"),
                (
                    "spec.matchConstraints.resourceRules[0].resources[3]",
                    "Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
                ),
                (
                    "spec.matchConstraints.resourceRules[0].resources",
                    'Invalid value: ["*","pods","pods/*","pods/status"]: if \'*\' is present, must not specify other '
                    "resources without subresources",
                ),
            ],
        ),
        (
            {
                "failurePolicy": "Shrug",
                "paramKind": {"apiVersion": "a/b/c", "kind": "Da!"},
                "matchConstraints": {"resourceRules": [MAPS]},
                "matchConditions": [{"name": "a b", "expression": "1"}],
                "variables": [{"name": "if", "expression": "1 + 'a'"}],
                "validations": [
                    {"expression": "'a'", "message": "a\nb", "reason": "Bored"},
                    {"expression": "params.a == nope", "messageExpression": "1"},
                    {"expression": " ", "messageExpression": " ", "message": " "},
                ],
                "auditAnnotations": [{"key": "a b", "valueExpression": "1"}],
            },
            [
                ("spec.failurePolicy", 'Unsupported value: "Shrug": supported values: "Fail", "Ignore"'),
                (
                    "spec.paramKind.apiVersion",
                    'Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
                ),
                ("spec.paramKind.kind", f'Invalid value: "Da!": {MIXED}'),
                (
                    "spec.matchConditions[0].expression",
                    'Invalid value: "1": must evaluate to bool but got int',
                ),
                ("spec.matchConditions[0].name", f'Invalid value: "a b": {QUALIFIED}'),
                ("spec.variables[0].name", 'Invalid value: "if": must be a valid CEL identifier'),
                (
                    "spec.variables[0].expression",
                    "Invalid value: \"1 + 'a'\": compilation failed: ERROR: <input>:1:3: found no matching overload "
                    "for '_+_' applied to '(int, string)'\n | 1 + 'a'\n | ..^",
                ),
                (
                    "spec.validations[0].expression",
                    "Invalid value: \"'a'\": must evaluate to bool but got string",
                ),
                ("spec.validations[0].message", 'Invalid value: "a\\nb": must not contain line breaks'),
                (
                    "spec.validations[0].reason",
                    'Unsupported value: "Bored": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"',
                ),
                (
                    "spec.validations[1].expression",
                    'Invalid value: "params.a == nope": compilation failed: ERROR: <input>:1:13: undeclared reference '
                    "to 'nope' (in container '')\n | params.a == nope\n | ............^",
                ),
                (
                    "spec.validations[1].messageExpression",
                    'Invalid value: "1": must evaluate to string but got int',
                ),
                ("spec.validations[2].expression", "Required value: expression is not specified"),
                (
                    "spec.validations[2].messageExpression",
                    'Invalid value: " ": must be non-empty if specified',
                ),
                ("spec.validations[2].message", 'Invalid value: " ": must be non-empty if specified'),
                ("spec.auditAnnotations[0].key", f'Invalid value: "bad/a b": {QUALIFIED}'),
                (
                    "spec.auditAnnotations[0].valueExpression",
                    'Invalid value: "1": must evaluate to one of [string null_type] but got int',
                ),
            ],
        ),
    ],
)
async def test_invalid_policy_is_rejected(
    hub: Hub, spec: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    answer = await ask(hub, "POST", POLICIES, body={"metadata": {"name": "bad"}, "spec": spec})
    assert (answer.code, causes_of(answer)) == (422, causes)


def causes_of(answer: Answer) -> list[tuple[str, str]]:
    return [(cause["field"], cause["message"]) for cause in answer.document["details"]["causes"]]


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        (
            {"paramRef": {}},
            [
                ("spec.policyName", "Required value"),
                ("spec.paramRef", "Required value: one of name or selector must be specified"),
                ("spec.paramRef.parameterNotFoundAction", "Required value"),
                ("spec.validationActions", "Required value: at least one validation action is required"),
            ],
        ),
        (
            {
                "policyName": "A",
                "paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Shrug"},
                "validationActions": ["Deny", "Warn"],
                "matchResources": {
                    "objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
                    "resourceRules": [{**MAPS, "resourceNames": ["a", "a"]}],
                },
            },
            [
                ("spec.policyName", f'Invalid value: "A": {SUBDOMAIN}'),
                ("spec.paramRef.name", "Forbidden: name and selector are mutually exclusive"),
                ("spec.paramRef.selector", "Forbidden: name and selector are mutually exclusive"),
                (
                    "spec.paramRef.parameterNotFoundAction",
                    'Unsupported value: "Shrug": supported values: "Deny", "Allow"',
                ),
                (
                    "spec.matchResources.objectSelector.matchExpressions[0].values",
                    "Required value: must be specified when `operator` is 'In' or 'NotIn'",
                ),
                ("spec.matchResources.resourceRules[0].resourceNames[1]", 'Duplicate value: "a"'),
                (
                    "spec.validationActions",
                    'Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn (repeating the same '
                    "validation failure information in the API response and headers serves no purpose)",
                ),
            ],
        ),
    ],
)
async def test_invalid_policy_binding_is_rejected(
    hub: Hub, spec: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    answer = await ask(hub, "POST", BINDINGS, body={"metadata": {"name": "bad"}, "spec": spec})
    assert (answer.code, causes_of(answer)) == (422, causes)


async def test_policy_defaults_are_set(hub: Hub) -> None:
    rules = [{**MAPS, "operations": ["CREATE"]}]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}]}
    bound = {"policyName": "no-such", "validationActions": ["Deny"], "matchResources": {}}
    shown = []
    for path, body in ((POLICIES, spec), (BINDINGS, bound)):
        answer = await ask(hub, "POST", f"{path}?dryRun=All", body={"metadata": {"name": "a"}, "spec": body})
        assert answer.code == 201, answer
        assert answer.document["metadata"]["generation"] == 1
        shown.append({k: v for k, v in answer.document.items() if k in ("spec", "status")})
    everywhere = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    assert shown == [
        {
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {**everywhere, "resourceRules": [{**rules[0], "scope": "*"}]},
                "validations": [{"expression": "true"}],
            },
            "status": {},
        },
        {"spec": {**bound, "matchResources": everywhere}},
    ]


async def test_applied_policy_status_changes_only_the_status(hub: Hub, namespace: str, force: Force) -> None:
    name = await force()
    checked = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"validations": []},
        "status": {"observedGeneration": 1, "typeChecking": {}},
    }
    path = f"{POLICIES}/{name}/status?fieldManager=types&force=true"
    answer = await ask(hub, "PATCH", path, body=checked, type_=APPLY)
    assert (answer.code, answer.document["status"]) == (200, checked["status"])
    assert answer.document["spec"]["validations"] == [PROBE]
    assert answer.document["metadata"]["generation"] == 1


async def test_policy_author_needs_read_access_to_parameters(hub: Hub, namespace: str) -> None:
    """A policy could disclose its parameters in messages."""
    policies = "validatingadmissionpolicies validatingadmissionpolicybindings"
    await grant(hub, "", rule("create delete", policies, group=GROUP), name=f"policies-{namespace}")
    kind = {"apiVersion": "v1", "kind": "Secret"}
    spec = {
        "paramKind": kind,
        "matchConstraints": {"resourceRules": [MAPS]},
        "validations": [{"expression": "true"}],
    }
    name = f"leak-{namespace}"
    body = {"metadata": {"name": name}, "spec": spec}
    refused = await ask(hub, "POST", POLICIES, user=MALLORY, body=body)
    assert refused.code == 422
    [(field, message)] = causes_of(refused)
    assert (field, message.partition("&{")[0], message.rpartition("}")[2]) == (
        "spec.paramKind",
        "Forbidden: user ",
        ' must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)',
    )
    assert (await ask(hub, "POST", POLICIES, body=body)).code == 201
    reference = {"name": "secret", "namespace": "kube-system", "parameterNotFoundAction": "Allow"}
    binding = {"policyName": name, "validationActions": ["Deny"], "paramRef": reference}
    body = {"metadata": {"name": name}, "spec": binding}
    refused = await ask(hub, "POST", BINDINGS, user=MALLORY, body=body)
    [(field, message)] = causes_of(refused)
    assert (refused.code, field, message.rpartition("}")[2]) == (
        422,
        "spec.paramRef",
        ' does not have "get" permission on the object referenced by paramRef',
    )
    del binding["paramRef"]
    assert (await ask(hub, "POST", BINDINGS, user=MALLORY, body=body)).code == 201
    for path in (BINDINGS, POLICIES):
        assert (await ask(hub, "DELETE", f"{path}/{name}", user=MALLORY)).code == 200


async def test_policies_do_not_apply_to_policies(hub: Hub, namespace: str, force: Force) -> None:
    everything = [{"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]
    name = await force(
        {"expression": f"request.resource.group != '{GROUP}'", "message": "mine"}, rules=everything
    )
    for path in (BINDINGS, POLICIES):
        assert (await ask(hub, "DELETE", f"{path}/{name}")).code == 200
