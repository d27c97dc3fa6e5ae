"""The Helm chart has the objects of ``fairway install``, as the real helm renders them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.documents import ROOT
from deploy.test_kustomize import Objects, by_name, decoded
from fairway.cli.options.controllers import chosen
from fairway.controllers import settings
from fairway.install import Installation, Mode
from fairway.install.chart import KEEP, POD_SETTINGS, values
from rigs.kubernetes import HELM, Tools

CHART = ROOT / "deploy/helm/fairway"
TEMPLATE = ("template", "fairway", str(CHART), "--kube-version=1.30.0")
Values = dict[str, Any]

# Values of the chart, and the installation with the same settings.
CASES: dict[str, tuple[Values, Installation]] = {
    **{mode.value: ({"mode": mode.value}, Installation(mode=mode)) for mode in Mode},
    "more controllers, and no CRDs": (
        {"controllers": ["+hosting", "-scores", "+machines"], "crds": False},
        Installation(controllers=chosen("+hosting,-scores,+machines"), crds=False),
    ),
    "named controllers in place of OCM's": (
        {"mode": "ocm", "controllers": ["placement", "recovery"]},
        Installation(mode=Mode.OCM, controllers=frozenset({"placement", "recovery"})),
    ),
    "an addition to OCM's": (
        {"mode": "ocm", "controllers": ["+bridge"]},
        Installation(mode=Mode.OCM, controllers=frozenset({"placement", "bridge"})),
    ),
    "every controller": (
        {"controllers": sorted(settings.ALL), "monitoring": True, "replicas": 0},
        Installation(controllers=settings.ALL, monitoring=True, replicas=0),
    ),
    "another place": (
        {
            "mode": "ocm",
            "ocmNamespace": "hosted",
            "replicas": 3,
            "image": {"repository": "registry.example/fairway", "tag": "2@sha256:12"},
        },
        Installation(
            mode=Mode.OCM,
            namespace="123",  # YAML would read it as a number
            ocm_namespace="hosted",
            replicas=3,
            image="registry.example/fairway:2@sha256:12",
        ),
    ),
}


def helm(tools: Tools, *arguments: str, given: Values | None = None) -> subprocess.CompletedProcess[str]:
    options = ("--values=-",) if given is not None else ()
    return subprocess.run(
        [str(tools.path(HELM)), *arguments, *options],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )


def render(tools: Tools, given: Values, *, namespace: str = settings.NAMESPACE) -> list[dict[str, Any]]:
    ran = helm(tools, *TEMPLATE, f"--namespace={namespace}", given=given)
    assert ran.returncode == 0, ran.stderr
    return list(yaml.safe_load_all(ran.stdout))


def without_keep(objects: Objects) -> Objects:
    """Remove the annotation that keeps CRDs, which only Helm needs, and check that CRDs have it."""
    for (kind, name), document in objects.items():
        if kind == "CustomResourceDefinition":
            assert KEEP.items() <= document["metadata"]["annotations"].items(), name
            for key in KEEP:
                del document["metadata"]["annotations"][key]
            if not document["metadata"]["annotations"]:
                del document["metadata"]["annotations"]
    return objects


@pytest.mark.parametrize(("given", "installation"), CASES.values(), ids=CASES)
def test_chart_renders_what_install_prints(
    kube_tools: Tools, given: Values, installation: Installation
) -> None:
    rendered = render(kube_tools, {**given, "createNamespace": True}, namespace=installation.namespace)
    assert without_keep(by_name(rendered)) == by_name(decoded(installation))


def test_chart_leaves_the_namespace_to_helm(kube_tools: Tools) -> None:
    expected = {name for name in by_name(decoded(Installation())) if name[0] != "Namespace"}
    assert set(by_name(render(kube_tools, {}))) == expected


def test_chart_passes_on_settings_of_the_pods(kube_tools: Tools) -> None:
    given: Values = {
        "extraArguments": ["--workers=64"],
        "resources": {"limits": {"memory": "4Gi"}},
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"zone": "a<b"},
        "priorityClassName": "high",
        "tolerations": [{"operator": "Exists"}],
    }
    (pod,) = (
        document["spec"]["template"]["spec"]
        for document in render(kube_tools, given)
        if document["kind"] == "Deployment"
    )
    (container,) = pod["containers"]
    assert container["args"][-2:] == ["--log-format=json", "--workers=64"]
    assert container["resources"]["limits"] == given["resources"]["limits"]
    assert {name: pod[name] for name in POD_SETTINGS} == {name: given[name] for name in POD_SETTINGS}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"controller": ["placement"]}, "controller"),
        ({"controllers": ["plcement"]}, "/controllers/0"),
        ({"controllers": "placement"}, "/controllers"),
        ({"mode": "Shadow"}, "/mode"),
        ({"mode": "shadow", "controllers": ["scores"]}, "/controllers"),
        ({"replicas": -1}, "/replicas"),
        ({"image": "fairway:1"}, "/image"),
        ({"ocmNamespace": "Hosted"}, "/ocmNamespace"),
        ({"mode": "ocm", "controllers": ["-placement"]}, "none is left"),
    ],
    ids=str,
)
def test_chart_rejects_wrong_values(kube_tools: Tools, given: Values, path: str) -> None:
    ran = helm(kube_tools, *TEMPLATE, given=given)
    assert ran.returncode == 1
    assert path in ran.stderr


def test_helm_lint_finds_nothing(kube_tools: Tools, tmp_path: Path) -> None:
    ran = helm(kube_tools, "lint", "--strict", str(CHART))
    assert (ran.returncode, "0 chart(s) failed" in ran.stdout) == (0, True), ran.stdout
    assert helm(kube_tools, "package", str(CHART), "--destination", str(tmp_path)).returncode == 0


def test_every_value_of_the_chart_is_documented() -> None:
    (row,) = {len(line.split(" | ")) for line in (CHART / "README.md").read_text("utf-8").splitlines()[-5:]}
    assert row == 3
    assert list(yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))) == [
        value.name for value in values()
    ]
