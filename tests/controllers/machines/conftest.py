"""A hub with NeonVM's kinds, shared by tests that leave it empty: the embedded one, and a real kube-apiserver."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controllers.machines.machine_rig import embedded_machine_hub, real_machine_hub
from rigs.kubernetes import background


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def machine_hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of the hub."""
    folder = tmp_path_factory.mktemp(f"machines-{request.param}")
    if request.param == "embedded":
        with embedded_machine_hub(folder) as kubeconfig:
            yield kubeconfig
    else:
        with background(real_machine_hub(request.getfixturevalue("kube_tools"), folder)) as kubeconfig:
            yield kubeconfig
