"""Parsing of request paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubehub import request_info

KNOWN = [
    ("/api/v1/pods", ("", "v1", "", "pods", "", "")),
    ("/api/v1/namespaces", ("", "v1", "", "namespaces", "", "")),
    ("/api/v1/namespaces/a", ("", "v1", "", "namespaces", "a", "")),
    ("/api/v1/namespaces/a/status", ("", "v1", "", "namespaces", "a", "status")),
    ("/api/v1/namespaces/a/finalize", ("", "v1", "", "namespaces", "a", "finalize")),
    ("/api/v1/namespaces/a/pods", ("", "v1", "a", "pods", "", "")),
    ("/api/v1/namespaces/a/pods/p", ("", "v1", "a", "pods", "p", "")),
    ("/api/v1/namespaces/a/pods/p/binding", ("", "v1", "a", "pods", "p", "binding")),
    ("/apis/apps/v1/namespaces/a/deployments/d/scale", ("apps", "v1", "a", "deployments", "d", "scale")),
    ("/apis/g.io/v1/things/t", ("g.io", "v1", "", "things", "t", "")),
    ("/api/v1/pods?watch=1", ("", "v1", "", "pods", "", "")),
    (
        "/apis/rbac.io/v1/clusterroles/system:node%3Ax",
        ("rbac.io", "v1", "", "clusterroles", "system:node:x", ""),
    ),
]


@pytest.mark.parametrize(("path", "parts"), KNOWN)
def test_resource_paths_are_parsed(path: str, parts: tuple[str, ...]) -> None:
    info = request_info.parse(path)
    assert (info.group, info.version, info.namespace, info.plural, info.name, info.subresource) == parts


@pytest.mark.parametrize(
    "path", ["/api", "/apis", "/apis/apps", "/version/", "/", "/openapi/v3/apis/apps/v1"]
)
def test_discovery_paths_have_no_resource(path: str) -> None:
    assert not request_info.parse(path).plural


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/a/../b/secrets",
        "/api/v1/namespaces/%2e%2e/secrets",
        "/api/v1/pods/a%2Fb",
        "/api/v1/pods/a%00",
        "/api/v1/pods/a%5Cb",
    ],
)
def test_path_segments_that_are_not_names_are_not_found(path: str) -> None:
    assert request_info.parse(path).invalid


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/a/b/c/d",
        "/api/v1//pods",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/a/pods/p/x/y",
        "//api/v1",
    ],
)
def test_long_or_empty_path_segments_are_not_found(path: str) -> None:
    assert request_info.parse(path).invalid


def test_host_in_a_request_target_is_ignored() -> None:
    assert request_info.parse("https://elsewhere.example/api/v1/pods") == request_info.parse("/api/v1/pods")


@pytest.mark.parametrize("path", ["/%6detrics", "/metrics?x=/version"])
def test_request_path_is_unquoted_for_rules(path: str) -> None:
    assert request_info.parse(path).path == "/metrics"


@given(st.text())
def test_any_path_is_parsed(path: str) -> None:
    info = request_info.parse(f"/{path}")
    assert info.invalid or "/" not in info.name
