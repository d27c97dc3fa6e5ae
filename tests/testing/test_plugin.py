"""The pytest plugin in another project, which enables it in its conftest.py."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = [
    pytest.param(example, id=f"{page}-{number}")
    for page in ("how-to/hub.md", "reference/client.md")
    for number, example in enumerate(
        re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    )
]

TWO_TESTS = """
from kubernetes import client, config

PLACEMENT = {
    "apiVersion": "cluster.open-cluster-management.io/v1beta1",
    "kind": "Placement",
    "metadata": {"name": "web"},
    "spec": {"numberOfClusters": 2},
}
WHERE = ("cluster.open-cluster-management.io", "v1beta1", "default", "placements")


def api(hub):
    return client.CustomObjectsApi(config.new_client_from_config(str(hub.kubeconfig)))


def test_one(fairway_hub):
    made = api(fairway_hub).create_namespaced_custom_object(*WHERE, PLACEMENT)
    assert made["metadata"]["uid"]


def test_another_starts_with_an_empty_hub(fairway_hub):
    assert api(fairway_hub).list_namespaced_custom_object(*WHERE)["items"] == []
"""


@pytest.fixture(autouse=True)
def enabled(pytester: pytest.Pytester) -> None:
    """As the page says."""
    pytester.makeconftest('pytest_plugins = ["fairway.testing.plugin"]')


def test_fixture_starts_an_empty_hub_for_every_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TWO_TESTS)
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=2)


def test_fixture_list_describes_the_hub(pytester: pytest.Pytester) -> None:
    shown = pytester.runpytest_subprocess("--fixtures", "-q")
    shown.stdout.fnmatch_lines(["fairway_hub -- *", "*A running hub: *"])


def test_run_without_the_fixture_does_not_import_the_hub(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_imported():
            assert "fairway.testing.plugin" in sys.modules
            assert not {"fairway.hub", "aiohttp", "cryptography"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_plugin_is_not_loaded_unless_enabled(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("")
    pytester.makepyfile("def test_hub(fairway_hub): pass")
    pytester.runpytest_subprocess("-q").assert_outcomes(errors=1)


@pytest.mark.parametrize("example", EXAMPLES)
def test_pytest_examples_in_docs_pass(example: str, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(example)
    result = pytester.runpytest_subprocess("-q")
    assert result.parseoutcomes().get("passed", 0) >= 1
    assert not {"failed", "errors"} & set(result.parseoutcomes())


def test_docs_pages_have_pytest_examples() -> None:
    assert len(EXAMPLES) >= 3
