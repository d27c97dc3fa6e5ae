"""The hub bounds the work that CRDs, and objects of their kinds, can cause."""

import asyncio
import json
import uuid
from typing import Any

import pytest

from kubehub.schemas import cel_validation
from security.wire import Answer, Hub, ask

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "attacks.example"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(plural: str, schema: dict[str, Any], **version: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural, "kind": plural.capitalize()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


def of_spec(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": schema}}


class CustomResourceHarness:
    """A custom resource on the embedded hub."""

    def __init__(self, hub: Hub) -> None:
        self._place = hub
        self.plural = f"x{uuid.uuid4().hex[:10]}"

    async def define(self, schema: dict[str, Any], **version: Any) -> Answer:
        body = definition(self.plural, schema, **version)
        return await ask(self._place, "POST", DEFINITIONS, body=body)

    def __call__(self, query: str = "") -> str:
        return f"/apis/{GROUP}/v1/namespaces/default/{self.plural}{query}"

    async def write(self, spec: Any) -> Answer:
        body = {
            "apiVersion": f"{GROUP}/v1",
            "kind": self.plural.capitalize(),
            "metadata": {"name": "x"},
            "spec": spec,
        }
        return await ask(self._place, "POST", self("?dryRun=All"), body=body)


@pytest.fixture
def things(embedded: Hub) -> CustomResourceHarness:
    return CustomResourceHarness(embedded)


# Schemas


async def test_large_schema_is_rejected(things: CustomResourceHarness) -> None:
    fields = {f"p{number}": {"type": "string"} for number in range(60_000)}
    assert (await things.define(of_spec({"type": "object", "properties": fields}))).code == 413


def doubled(times: int, junctor: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"minimum": 0}
    for _ in range(times):
        schema = {junctor: [schema, schema]}
    return schema


@pytest.mark.parametrize(("junctor", "value"), [("allOf", 1), ("anyOf", -1), ("oneOf", 1)])
async def test_nested_alternatives_are_validated_within_a_budget(
    things: CustomResourceHarness, junctor: str, value: int
) -> None:
    """1,024 alternatives for each of 1,000 items, where every alternative must be tried."""
    items = {"type": "integer", **doubled(10, junctor)}
    assert (await things.define(of_spec({"type": "array", "items": items}))).code == 201
    answer = await things.write([value] * 1_000)
    assert answer.code == 400
    assert "too many alternatives" in answer.message


async def test_many_alternatives_of_many_values_are_validated_within_a_budget(
    things: CustomResourceHarness,
) -> None:
    branches = [{"items": {"minimum": number}} for number in range(2_000)]
    schema = {"type": "array", "items": {"type": "integer"}, "allOf": branches}
    assert (await things.define(of_spec(schema))).code == 201
    assert (await things.write([5_000])).code == 201
    assert (await things.write([5_000] * 50_000)).code == 400


async def test_defaults_of_many_items_are_limited(things: CustomResourceHarness) -> None:
    item = {"type": "object", "properties": {"a": {"type": "string", "default": "x" * 200_000}}}
    assert (await things.define(of_spec({"type": "array", "items": item}))).code == 201
    assert (await things.write([{}] * 3)).code == 201
    assert (await things.write([{}] * 50_000)).code == 413


async def test_nested_defaults_are_limited(things: CustomResourceHarness) -> None:
    schema: dict[str, Any] = {"type": "string", "default": "x"}
    for _ in range(10):
        entry = {"type": "object", "properties": {"a": schema, "b": schema}}
        schema = {"type": "array", "items": entry, "default": [{}, {}]}
    answer = await things.define(of_spec(schema))
    assert answer.code in (201, 400, 413, 422)
    if answer.code == 201:
        # One million defaults.
        assert (await things.write(None)).code in (413, 422)


@pytest.mark.parametrize(
    "pattern",
    [
        "(x{1000}){1000}",
        "((a{1,100}){1,100}){1,100}",
        "a?" * 100_000,
        "(" * 5_000 + ")" * 5_000,
        "[",
        "(?<n>",
    ],
    ids=lambda text: text[:16],
)
async def test_large_pattern_is_rejected(things: CustomResourceHarness, pattern: str) -> None:
    answer = await things.define(of_spec({"type": "string", "pattern": pattern}))
    assert answer.code in (201, 422)
    assert (answer.code == 201) == (pattern == "(?<n>") or answer.code == 422


# Rules


def ruled(schema: dict[str, Any], *texts: str) -> dict[str, Any]:
    return of_spec({**schema, "x-kubernetes-validations": [{"rule": text} for text in texts]})


INTEGER = {"type": "integer"}
TEN = "[0,1,2,3,4,5,6,7,8,9]"
NESTED = f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, {TEN}.all(e, a + b + c + d + e >= 0)))))"


@pytest.mark.parametrize(
    "rule",
    [
        "(" * 100_000 + "true" + ")" * 100_000,
        "[" * 3_000 + "]" * 3_000 + ".size() == 1",
        " || ".join(["self == 1"] * 20_000),
        "+".join(["1"] * 20_000) + " > 0",
        "true ? " * 3_000 + "true" + " : true" * 3_000,
        "self" + ".a" * 20_000 + " == 1",
        "[{(" * 20_000,
        "'" + "a" * 1_000_000 + "' == 'b'",
        f"self in {json.dumps(list(range(50_000)))}",
        "'%.1000000f'.format([1.0]) == ''",
    ],
    ids=lambda text: text[:16],
)
async def test_large_cel_rule_is_rejected(things: CustomResourceHarness, rule: str) -> None:
    assert (await things.define(ruled(INTEGER, rule))).code == 422


@pytest.mark.parametrize(
    "rule",
    [
        NESTED,
        "[[1]]" + ".map(a, a + a)" * 24 + "[0].exists(q, q == 7)",
        "[[1]]" + ".map(a, a + a)" * 24 + "[0].sum() > 0",
        "[['a']]" + ".map(a, a + a)" * 24 + "[0].join() == ''",
        "['aaaa']" + ".map(a, a + a)" * 24 + "[0].size() > 0",
    ],
    ids=["nested", "list", "sum", "join", "text"],
)
async def test_cel_rule_is_stopped_at_its_cost_limit(things: CustomResourceHarness, rule: str) -> None:
    assert (await things.define(ruled(INTEGER, rule))).code == 201
    answer = await things.write(1)
    assert (answer.code, "exceeded" in answer.message) == (422, True), answer.message


async def test_cel_rules_of_an_object_share_one_budget(
    things: CustomResourceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rule is within its own limit, and all of them are within the limit of the definition."""
    monkeypatch.setattr(cel_validation, "BUDGET", 500_000)
    monkeypatch.setattr(cel_validation, "WORK_BUDGET", 10_000_000)
    near = f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, a + b + c >= 0)))"
    items = {"type": "integer", "x-kubernetes-validations": [{"rule": near}] * 2}
    assert (await things.define(of_spec({"type": "array", "maxItems": 100, "items": items}))).code == 201
    assert (await things.write([1])).code == 201
    answer = await things.write([1] * 100)
    assert (answer.code, "out of cost budget" in answer.message) == (422, True)


# Columns and conversions


@pytest.mark.parametrize(
    "path",
    [
        ".spec[?(@" + ".a" * 60 + "!",
        ".spec[?(@" + ".a" * 60 + " == 'x')]",
        ".spec" + "[*]" * 1_000,
        ".spec" + ".a" * 1_000,
        ".spec['" + "a" * 2_000,
        ".spec" + "[?(@.a)]" * 200,
    ],
    ids=lambda text: text[:12] + text[-6:],
)
async def test_hostile_printer_columns_do_no_harm(
    embedded: Hub, things: CustomResourceHarness, path: str
) -> None:
    columns = [{"name": "a", "type": "string", "jsonPath": path}]
    defined = await things.define(FREE, additionalPrinterColumns=columns)
    assert defined.code in (201, 422)
    if defined.code == 201:
        spec = [{"a": [{"a": [{"a": 1}] * 10}] * 10}] * 10
        body = {
            "apiVersion": f"{GROUP}/v1",
            "kind": things.plural.capitalize(),
            "metadata": {"name": "x"},
            "spec": spec,
        }
        assert (await ask(embedded, "POST", things(), body=body)).code == 201
        table = await ask(embedded, "GET", things(), headers=[f"Accept: {TABLE}"])
        assert table.code == 200
        assert table.document["rows"][0]["cells"][0] == "x"


async def test_conversion_webhook_is_never_called(hub: Hub) -> None:
    """A webhook would let the author of a CRD choose the target of a request of the hub."""
    plural = f"x{uuid.uuid4().hex[:10]}"
    body = definition(plural, FREE)
    body["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "http://169.254.169.254/latest/meta-data"},
        },
    }
    answer = await ask(hub, "POST", DEFINITIONS, body=body)
    assert answer.code == 422


async def test_many_crds_are_served(embedded: Hub) -> None:
    plurals = [f"x{uuid.uuid4().hex[:10]}" for _ in range(120)]
    for plural in plurals:
        made = await ask(embedded, "POST", DEFINITIONS, body=definition(plural, FREE))
        assert made.code == 201
    listed = (await ask(embedded, "GET", f"/apis/{GROUP}/v1")).document["resources"]
    assert {*plurals} <= {listed_kind["name"] for listed_kind in listed}
    assert (await ask(embedded, "GET", "/openapi/v2")).code == 200
    removed = await asyncio.gather(
        *(ask(embedded, "DELETE", f"{DEFINITIONS}/{plural}.{GROUP}") for plural in plurals)
    )
    assert {answer.code for answer in removed} == {200}


async def test_names_of_a_deleted_crd_can_be_reused(hub: Hub) -> None:
    """A name conflict ends when the CRD that has the name is deleted."""
    first, second = (f"x{uuid.uuid4().hex[:10]}" for _ in range(2))
    late = definition(second, FREE)
    late["spec"]["names"]["kind"] = first.capitalize()

    async def established(plural: str) -> bool:
        definition = (await ask(hub, "GET", f"{DEFINITIONS}/{plural}.{GROUP}")).document
        conditions = (definition.get("status") or {}).get("conditions") or ()
        return any(
            condition["type"] == "Established" and condition["status"] == "True" for condition in conditions
        )

    assert (await ask(hub, "POST", DEFINITIONS, body=definition(first, FREE))).code == 201
    while not await established(first):
        await asyncio.sleep(0.02)
    assert (await ask(hub, "POST", DEFINITIONS, body=late)).code == 201
    assert not await established(second)
    assert (await ask(hub, "DELETE", f"{DEFINITIONS}/{first}.{GROUP}")).code == 200
    while not await established(second):
        await asyncio.sleep(0.02)
