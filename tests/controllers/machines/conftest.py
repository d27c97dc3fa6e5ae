"""A hub with NeonVM's kinds, shared by tests that leave it empty: the embedded one, and a real kube-apiserver.

The invariants are checked after every event of every controller in these tests.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controllers.machines.machine_rig import embedded_machine_hub, real_machine_hub
from fairway.hosts.instant import Micros
from fairway.workloads.machines.events import Event
from fairway.workloads.machines.instructions import Instruction
from fairway.workloads.machines.state import MachineState
from rigs.kubernetes import background
from workloads.machines.invariants import accounts, check_replies, check_state, check_what_if


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


@pytest.fixture(autouse=True)
def broken_invariants(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test in which an event left a state that breaks an invariant."""
    handle, broken = MachineState.handle, list[str]()

    def handle_and_check(state: MachineState, event: Event, *, now: Micros) -> list[Instruction]:
        before = accounts(state)
        out = handle(state, event, now=now)
        try:
            check_state(state, event, before)
            check_what_if(state)
            check_replies(state, out)
        except AssertionError as error:
            broken.append(f"{event}: {error}")
        return out

    monkeypatch.setattr(MachineState, "handle", handle_and_check)
    yield
    assert not broken, "\n".join(broken)
