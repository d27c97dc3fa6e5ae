"""The debug endpoint, with real tokens and real rights: what OCM's tests pin down, on both hubs."""

import asyncio
import json
import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest

from controllers.serving.accounts import AUTHOR, OTHERS, PATHLESS, PATHONLY, SOVEREIGN, TEAM, VIEWER
from controllers.serving.conftest import Debugged, Hub
from fairway.controllers.serving import endpoint
from fairway.controllers.serving.access import ACCESS_REVIEWS, TOKEN_REVIEWS
from rigs.kubernetes import KUBECTL, Tools

pytestmark = pytest.mark.embedded

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
P1 = f"/debug/placements/{TEAM}/p1"
POST = "/debug/placements/"


def placement(namespace: str = TEAM, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "Placement",
        "metadata": {"name": "what-if", "namespace": namespace} if namespace else {"name": "what-if"},
        "spec": spec,
    }


# Success


@pytest.mark.both_hubs
async def test_debug_get_returns_filters_and_scores(debugged: Debugged) -> None:
    answer = await debugged.ask(VIEWER, "GET", P1)
    assert answer.code == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    document = answer.document
    assert document["placement"]["metadata"] == {"name": "p1", "namespace": TEAM}
    assert document["filteredPipelineResults"][-1] == {
        "name": "Predicate,TaintToleration",
        "filteredClusters": ["c1", "c2"],
    }
    assert {result["name"] for result in document["prioritizeResults"]} == {"Balance", "Steady"}
    assert [score["clusterName"] for score in document["aggregatedScores"]] == ["c1", "c2"]


async def test_debug_post_evaluates_a_nonexistent_placement(debugged: Debugged) -> None:
    answer = await debugged.ask(AUTHOR, "POST", POST, body=placement(numberOfClusters=1))
    assert answer.code == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.document["placement"]["metadata"]["name"] == "what-if"
    assert len(answer.document["aggregatedScores"]) == 2


async def test_debug_post_applies_no_defaults(debugged: Debugged) -> None:
    coordinate = {"builtIn": "Steady"}
    policy: dict[str, Any] = {"configurations": [{"scoreCoordinate": {"type": "BuiltIn", **coordinate}}]}
    answer = await debugged.ask(AUTHOR, "POST", POST, body=placement(prioritizerPolicy=policy))
    # A weight that is left out is 0, which switches Steady off.
    assert [result["name"] for result in answer.document["prioritizeResults"]] == ["Balance"]
    policy = {"configurations": [{"scoreCoordinate": coordinate, "weight": 1}]}
    answer = await debugged.ask(AUTHOR, "POST", POST, body=placement(prioritizerPolicy=policy))
    # A type that is left out is that of an add-on, which this one does not name: misconfigured, and still a 200.
    assert answer.code == 200
    assert "prioritizeResults" not in answer.document


async def test_debug_post_needs_neither_kind_nor_content_type(debugged: Debugged) -> None:
    body = {"metadata": {"namespace": TEAM}, "spec": {}}
    for headers in ((), ("Content-Type: application/x-www-form-urlencoded",), ("Content-Type: text/yaml",)):
        answer = await debugged.ask(AUTHOR, "POST", POST, body=body, headers=headers)
        assert answer.code == 200, answer


async def test_debug_post_accepts_v1alpha1(debugged: Debugged) -> None:
    policy = {"mode": "Exact", "configurations": [{"name": "Steady", "weight": 2}]}
    body = placement(prioritizerPolicy=policy) | {"apiVersion": "cluster.open-cluster-management.io/v1alpha1"}
    answer = await debugged.ask(AUTHOR, "POST", POST, body=body)
    assert [(result["name"], result["weight"]) for result in answer.document["prioritizeResults"]] == [
        ("Steady", 2)
    ]


async def test_debug_post_treats_null_as_absent(debugged: Debugged) -> None:
    answer = await debugged.ask(
        AUTHOR, "POST", POST, body=placement(predicates=None, prioritizerPolicy=None) | {"status": None}
    )
    assert answer.code == 200


async def test_misconfigured_placement_returns_200(debugged: Debugged) -> None:
    answer = await debugged.ask(
        AUTHOR, "POST", POST, body=placement(prioritizerPolicy={"mode": "Best", "configurations": []})
    )
    assert answer.code == 200
    assert set(answer.document) == {"placement", "filteredPipelineResults"}


@pytest.mark.both_hubs
async def test_documented_debug_command_works(debugged: Debugged, hub: Hub, kube_tools: Tools) -> None:
    (command,) = re.findall(r"^curl .*$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    command = command.replace("HOST:PORT", f"127.0.0.1:{debugged.address.port}")
    programs = f"{kube_tools.path(KUBECTL).parent}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_shell(
        command, env={"PATH": programs, "KUBECONFIG": str(hub.kubeconfig)}, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    assert json.loads(output)["placement"]["metadata"] == {"name": "p1", "namespace": TEAM}


# Bad requests, in the order in which they are found


async def test_debug_post_of_invalid_json_returns_400(debugged: Debugged) -> None:
    for body in (b"", b"{", b"kind: Placement", b'{"spec": {}} trailing', b"\xff", b"[" * 100_000):
        answer = await debugged.ask(AUTHOR, "POST", POST, body=body)
        assert answer.code == 400
        assert answer.error.startswith(endpoint.NOT_JSON.partition("{why}")[0])


@pytest.mark.parametrize(
    "body",
    [
        [],
        "p1",
        {"spec": {"numberOfClusters": "three"}},
        {"spec": []},
        {"kind": "ManagedCluster", "apiVersion": "cluster.open-cluster-management.io/v1"},
        {"kind": "Deployment", "apiVersion": "apps/v1"},
        {"kind": 7},
        {"metadata": {"namespace": 5}},
    ],
)
async def test_debug_post_of_another_kind_returns_400(debugged: Debugged, body: object) -> None:
    answer = await debugged.ask(AUTHOR, "POST", POST, body=body)
    assert answer.code == 400
    assert answer.error.startswith(endpoint.NOT_JSON.partition("{why}")[0])
    assert debugged.fleet.seen == []


async def test_debug_post_of_a_large_body_returns_400(debugged: Debugged) -> None:
    whole = b'{"spec": {}}'
    answer = await debugged.ask(AUTHOR, "POST", POST, body=whole + b" " * (endpoint.LIMIT - len(whole) + 1))
    assert (answer.code, answer.error) == (400, endpoint.TOO_LARGE)


async def test_debug_post_at_the_size_limit_is_accepted(debugged: Debugged) -> None:
    whole = b'{"metadata": {"namespace": "team-a"}, "spec": {}}'
    answer = await debugged.ask(AUTHOR, "POST", POST, body=whole + b" " * (endpoint.LIMIT - len(whole)))
    assert answer.code == 200


async def test_chunked_debug_post_has_the_same_limit(debugged: Debugged) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    answer = await debugged.ask(
        AUTHOR, "POST", POST, headers=("Transfer-Encoding: chunked", "", (chunk * 40).decode())
    )
    assert (answer.code, answer.error) == (400, endpoint.TOO_LARGE)


@pytest.mark.parametrize("key", ["", TEAM, f"{TEAM}/", "/p1"])
async def test_debug_get_without_a_name_returns_400(debugged: Debugged, key: str) -> None:
    answer = await debugged.ask(VIEWER, "GET", f"/debug/placements/{key}")
    assert (answer.code, answer.error) == (400, "invalid debug path: namespace and name required")


@pytest.mark.parametrize("key", ["a/b/c", f"{TEAM}/p1/", "a//b"])
async def test_debug_get_of_a_malformed_key_returns_400(debugged: Debugged, key: str) -> None:
    answer = await debugged.ask(VIEWER, "GET", f"/debug/placements/{key}")
    assert (answer.code, answer.error) == (400, endpoint.MALFORMED.format(key=key))


async def test_debug_get_of_a_missing_placement_returns_404(debugged: Debugged) -> None:
    answer = await debugged.ask(VIEWER, "GET", f"/debug/placements/{TEAM}/p2")
    assert (answer.code, answer.error) == (404, "placement 'p2' not found")


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH"])
async def test_other_methods_of_the_debug_endpoint_return_405(debugged: Debugged, method: str) -> None:
    answer = await debugged.ask(VIEWER, method, P1)
    assert (answer.code, answer.error) == (405, f"method {method} not allowed")
    assert answer.headers["allow"] == "GET, POST"


async def test_head_of_the_debug_endpoint_returns_405(debugged: Debugged) -> None:
    assert (await debugged.ask(VIEWER, "HEAD", P1)).code == 405


async def test_debug_port_serves_no_other_path(debugged: Debugged) -> None:
    for path in ("/", "/metrics", "/debug", "/debug/pprof", "/debug/placementsx/a/b"):
        assert (await debugged.ask("", "GET", path)).code == 404


# Permissions


@pytest.mark.both_hubs
async def test_debug_request_without_token_returns_401(debugged: Debugged) -> None:
    for headers in (
        (),
        ("Authorization: Basic YTpi",),
        ("Authorization: Bearer",),
        ("Authorization: Bearer a b",),
    ):
        answer = await debugged.ask("", "GET", P1, headers=headers)
        assert (answer.code, answer.error) == (401, "user information not found in request context")
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.both_hubs
async def test_debug_request_with_an_unknown_token_returns_401(debugged: Debugged) -> None:
    for token in ("made-up", "a.b.c", debugged.accounts.tokens[VIEWER][:-4] + "AAAA"):
        answer = await debugged.ask("", "GET", P1, headers=(f"Authorization: Bearer {token}",))
        assert (answer.code, answer.error) == (401, "Unauthorized")


@pytest.mark.both_hubs
async def test_missing_right_to_the_path_returns_403_first(debugged: Debugged) -> None:
    for path in (P1, f"/debug/placements/{TEAM}/missing"):
        answer = await debugged.ask(PATHLESS, "GET", path)
        user = debugged.accounts.user(PATHLESS)
        assert (answer.code, answer.error) == (403, f'forbidden: User "{user}" cannot get path "{path}"')


async def test_path_review_uses_the_method_as_verb(debugged: Debugged) -> None:
    answer = await debugged.ask(VIEWER, "POST", POST, body=placement())
    user = debugged.accounts.user(VIEWER)
    assert (answer.code, answer.error) == (403, f'forbidden: User "{user}" cannot post path "{POST}"')


@pytest.mark.both_hubs
async def test_missing_right_to_the_placement_returns_403(debugged: Debugged) -> None:
    answer = await debugged.ask(PATHONLY, "GET", P1)
    assert answer.code == 403
    assert answer.error.startswith(f"user does not have permission to get placements in namespace {TEAM}: ")
    assert debugged.fleet.seen == []


@pytest.mark.both_hubs
async def test_rights_apply_to_their_namespace_only(debugged: Debugged) -> None:
    answer = await debugged.ask(VIEWER, "GET", f"/debug/placements/{OTHERS}/p1")
    assert answer.code == 403
    assert answer.error.startswith(f"user does not have permission to get placements in namespace {OTHERS}: ")
    answer = await debugged.ask(AUTHOR, "POST", POST, body=placement(OTHERS))
    assert answer.code == 403
    assert answer.error.startswith(
        f"user does not have permission to create placements in namespace {OTHERS}: "
    )


async def test_missing_placement_returns_404_before_403(debugged: Debugged) -> None:
    answer = await debugged.ask(PATHONLY, "GET", f"/debug/placements/{TEAM}/missing")
    assert answer.code == 404


async def test_invalid_json_returns_400_before_403(debugged: Debugged) -> None:
    answer = await debugged.ask(PATHONLY, "POST", POST, body=b"{")
    assert answer.code == 400


@pytest.mark.both_hubs
async def test_debug_post_without_namespace_needs_rights_to_all(debugged: Debugged) -> None:
    answer = await debugged.ask(AUTHOR, "POST", POST, body=placement(""))
    assert answer.code == 403
    assert answer.error.startswith("user does not have permission to create placements in namespace : ")
    answer = await debugged.ask(SOVEREIGN, "POST", POST, body=placement(""))
    assert answer.code == 200
    assert [placement.metadata.namespace for placement in debugged.fleet.seen] == [""]


@pytest.mark.both_hubs
async def test_right_to_create_does_not_allow_get(debugged: Debugged) -> None:
    answer = await debugged.ask(SOVEREIGN, "GET", P1)
    assert answer.code == 403
    assert "permission to get placements" in answer.error


# When something fails here


@pytest.mark.parametrize("wrong", [RuntimeError("the lister of bindings"), KeyError("clusters")])
async def test_internal_error_returns_500_without_its_message(
    debugged: Debugged, wrong: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    debugged.fleet.fault = wrong
    answer = await debugged.ask(VIEWER, "GET", P1)
    assert (answer.code, answer.error) == (500, endpoint.FAILED)
    debugged.fleet.fault = wrong
    answer = await debugged.ask(AUTHOR, "POST", POST, body=placement())
    assert (answer.code, answer.error) == (500, endpoint.FAILED)
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.exc_info[1] for record in logged if record.exc_info] == [wrong, wrong]
    assert (await debugged.ask(VIEWER, "GET", P1)).code == 200


async def test_debug_endpoint_returns_503_before_sync(debugged: Debugged) -> None:
    debugged.unready[:] = ["placements not listed yet", "clusters not listed yet"]
    answer = await debugged.ask(VIEWER, "GET", P1)
    assert answer.code == 503
    assert answer.error == "not ready: placements not listed yet, clusters not listed yet"
    assert answer.headers["retry-after"] == "5"


async def test_debug_requests_are_rate_limited_per_user(
    debugged: Debugged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "EVERY", 1e6)
    codes = [(await debugged.ask(VIEWER, "GET", P1)).code for _ in range(endpoint.BURST + 1)]
    assert codes == [200] * endpoint.BURST + [429]
    assert (await debugged.ask(AUTHOR, "POST", POST, body=placement())).code == 200


# Nothing is written


async def test_debug_endpoint_writes_nothing(debugged: Debugged) -> None:
    """It sends only the two kinds of reviews, and changes no state."""
    before = debugged.fleet.world.fleet.snapshot().generation
    for body in (placement(), placement(""), placement(OTHERS), placement(numberOfClusters=1), b"{"):
        for account in (AUTHOR, SOVEREIGN):
            await debugged.ask(account, "POST", POST, body=body)
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        await debugged.ask(VIEWER, method, P1, body=placement())
    assert len(debugged.fleet.seen) >= 5
    assert set(debugged.sent) == {("POST", TOKEN_REVIEWS), ("POST", ACCESS_REVIEWS)}
    assert debugged.fleet.world.fleet.snapshot().generation == before


# The queue


async def test_queue_state_needs_the_rights_of_the_placement(debugged: Debugged) -> None:
    answer = await debugged.ask(VIEWER, "GET", f"/debug/queue/{TEAM}/p1")
    assert (answer.code, answer.document) == (200, {"state": "settled"})
    for account, namespace, code in (
        ("", TEAM, 401),
        (PATHLESS, TEAM, 403),
        (PATHONLY, TEAM, 403),
        (VIEWER, OTHERS, 403),
    ):
        assert (await debugged.ask(account, "GET", f"/debug/queue/{namespace}/p1")).code == code


@pytest.mark.parametrize(("key", "code"), [("", 400), (f"{TEAM}/none", 404), (f"{TEAM}/p1/more", 400)])
async def test_queue_state_of_a_wrong_path_is_refused(debugged: Debugged, key: str, code: int) -> None:
    assert (await debugged.ask(VIEWER, "GET", f"/debug/queue/{key}")).code == code


async def test_queue_state_has_only_get(debugged: Debugged) -> None:
    answer = await debugged.ask(SOVEREIGN, "POST", f"/debug/queue/{TEAM}/p1")
    assert (answer.code, answer.headers["allow"]) == (405, "GET")
