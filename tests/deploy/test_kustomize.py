"""The kustomizations in ``deploy`` and ``fairway install`` have the same objects, as the real kubectl renders them."""

import subprocess
from typing import Any

import msgspec
import pytest
import yaml

from deploy.documents import ROOT
from fairway.install import Installation, Mode, documents
from rigs.kubernetes import KUBECTL, Tools

Objects = dict[tuple[str, str], dict[str, Any]]


@pytest.mark.kube
@pytest.mark.parametrize(
    ("folder", "mode"), [(".", Mode.STANDALONE), ("ocm", Mode.OCM), ("shadow", Mode.SHADOW)]
)
def test_kustomization_renders_what_install_prints(kube_tools: Tools, folder: str, mode: Mode) -> None:
    assert by_name(render(kube_tools, folder)) == by_name(decoded(Installation(mode=mode)))


@pytest.mark.kube
def test_monitoring_kustomization_renders_what_install_prints(kube_tools: Tools) -> None:
    rendered = by_name(render(kube_tools, "monitoring"))
    installed = by_name(decoded(Installation(monitoring=True)))
    assert len(rendered) == 3
    assert rendered == {key: installed[key] for key in rendered}


def render(tools: Tools, folder: str) -> list[dict[str, Any]]:
    command = [str(tools.path(KUBECTL)), "kustomize", str(ROOT / "deploy" / folder)]
    return list(
        yaml.safe_load_all(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    )


def decoded(installation: Installation) -> list[dict[str, Any]]:
    """Return the objects as JSON has them: lists, no tuples."""
    objects: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(documents(installation)))
    return objects


def by_name(objects: list[dict[str, Any]]) -> Objects:
    return {(document["kind"], document["metadata"]["name"]): document for document in objects}
