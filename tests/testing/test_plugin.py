"""The pytest plugin in another project, which enables it in its conftest.py."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = {
    f"test_{Path(page).stem}_{number}": example
    for page in ("how-to/hub.md", "reference/client.md")
    for number, example in enumerate(
        re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    )
}

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


ENABLED = 'pytest_plugins = ["fairway.testing.plugin"]'


def test_fixture_starts_an_empty_hub_for_every_test_and_docs_examples_pass(pytester: pytest.Pytester) -> None:
    """One process for all of them, because a process with a hub takes seconds to start."""
    assert len(EXAMPLES) >= 3
    pytester.makeconftest(ENABLED)
    pytester.makepyfile(test_two=TWO_TESTS, **EXAMPLES)
    outcomes = pytester.runpytest_subprocess("-q").parseoutcomes()
    assert outcomes["passed"] >= 2 + len(EXAMPLES)
    assert not {"failed", "errors", "skipped"} & set(outcomes)


def test_fixture_list_describes_the_hub(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(ENABLED)
    shown = pytester.runpytest_inprocess("--fixtures", "-q", "-p", "no:asyncio")
    shown.stdout.fnmatch_lines(["fairway_hub -- *", "*A running hub: *"])


def test_run_without_the_fixture_does_not_import_the_hub(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(ENABLED)
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_imported():
            assert "fairway.testing.plugin" in sys.modules
            assert not {"kubehub", "aiohttp", "cryptography"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_plugin_is_not_loaded_unless_enabled(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_hub(fairway_hub): pass")
    pytester.runpytest_inprocess("-q", "-p", "no:asyncio").assert_outcomes(errors=1)
