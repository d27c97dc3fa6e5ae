"""State that a klusterlet stores between runs, and its file modes."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairway.klusterlet.certificates import Subject
from fairway.klusterlet.enrolment import SubmittedRequest
from fairway.klusterlet.errors import StateError
from fairway.klusterlet.state import (
    BROKEN,
    FOREIGN_OWNER,
    IN_USE,
    NOT_A_FOLDER,
    OTHER_CLUSTER,
    OTHER_HUB,
    WRITABLE_BY_ALL,
    State,
    kubeconfig_for,
)
from klusterlet.key_pairs import signed
from kubewire.client import Connection
from kubewire.client.tls import Pem

HUB = Connection(server="https://hub:6443", authority=Pem(data=b"authority"))
PAIR = signed(
    Subject(user="system:open-cluster-management:c1:a1"), begins=datetime.now(UTC), life=timedelta(hours=1)
)


def test_agent_name_is_stable(tmp_path: Path) -> None:
    with State.locked(tmp_path, cluster="c1") as state:
        name = state.agent
        assert len(name) == 5
        assert state.agent == name
    with State.locked(tmp_path, cluster="c1") as state:
        assert state.agent == name


def test_identity_is_stored_with_hub_connection(tmp_path: Path) -> None:
    with State.locked(tmp_path, cluster="c1") as state:
        agent = state.agent
        assert state.certificate() is None
        state.store(PAIR, hub=HUB)
        certificate = state.certificate()
        assert certificate is not None
        assert certificate.subject.user == "system:open-cluster-management:c1:a1"
        connection = state.connection()
        assert connection.server == HUB.server
        assert connection.authority is not None
        assert connection.authority.read() == b"authority"
        assert connection.namespace == "configuration"
        assert state.agent == agent


async def test_connection_reloads_renewed_certificate(tmp_path: Path) -> None:
    with State.locked(tmp_path, cluster="c1") as state:
        state.store(PAIR, hub=HUB)
        credentials = state.connection().credentials
        before = (await credentials.proof()).certificate
        later = signed(Subject(user="later"), begins=datetime.now(UTC), life=timedelta(hours=1))
        state.renew(later)
        after = (await credentials.proof()).certificate
        assert before is not None
        assert after is not None
        assert (before.chain, before.key) == (PAIR.chain, PAIR.key)
        assert (after.chain, after.key) == (later.chain, later.key)


def test_state_folder_of_another_cluster_is_rejected(tmp_path: Path) -> None:
    with State.locked(tmp_path, cluster="c1") as state:
        assert state.agent
    with pytest.raises(StateError) as refused, State.locked(tmp_path, cluster="c2"):
        pass
    assert str(refused.value) == OTHER_CLUSTER.format(folder=tmp_path, recorded="c1", name="c2")


def test_state_folder_is_locked(tmp_path: Path) -> None:
    with State.locked(tmp_path, cluster="c1"):
        with pytest.raises(StateError) as refused, State.locked(tmp_path, cluster="c1"):
            pass
        assert str(refused.value).startswith(IN_USE.partition("(")[0].format(folder=tmp_path))
    with State.locked(tmp_path, cluster="c1"):
        pass


def test_unusable_state_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError) as refused, State.locked(tmp_path / "file", cluster="c1"):
        pass
    assert str(refused.value) == NOT_A_FOLDER.format(folder=tmp_path / "file", why="File exists")


def test_world_writable_state_folder_is_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(StateError) as refused, State.locked(folder, cluster="c1"):
        pass
    assert str(refused.value) == WRITABLE_BY_ALL.format(path=folder)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("part", ["", "hub", "pending", "agents"])
def test_state_folder_of_another_user_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    folder = tmp_path / "state"
    (folder / part).mkdir(parents=True)
    real = Path.stat

    def theirs(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        info = real(path, follow_symlinks=follow_symlinks)
        return os.stat_result((*info[:4], 4711, *info[5:])) if path == folder / part else info

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", theirs)
        with pytest.raises(StateError) as refused, State.locked(folder, cluster="c1"):
            pass
    assert str(refused.value) == FOREIGN_OWNER.format(path=folder / part, owner=4711)


def test_permissions_of_state_folder_are_tightened(tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir(mode=0o755)
    (tmp_path / "hub").chmod(0o755)
    with State.locked(tmp_path, cluster="c1"):
        assert (tmp_path / "hub").stat().st_mode & 0o777 == 0o700


def test_lock_symlink_is_rejected(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "lock").symlink_to(target)
    with pytest.raises(StateError), State.locked(folder, cluster="c1"):
        pass
    assert target.read_text() == "precious"


def test_long_names_of_pending_requests_are_hashed(tmp_path: Path) -> None:
    with State.locked(tmp_path, cluster="c1") as state:
        asked = SubmittedRequest(name="r", key=b"k", user="u")
        state.pending(f"{'a' * 250}-example.com/signer").write(asked)
        assert state.pending(f"{'a' * 250}-example.com/signer").read() == asked
        assert state.pending(f"{'a' * 250}-example.com/other").read() is None


def test_invalid_stored_identity_is_rejected(tmp_path: Path) -> None:
    with State.locked(tmp_path, cluster="c1") as state:
        state.store(replace(PAIR, chain=b"nonsense"), hub=HUB)
        with pytest.raises(StateError) as refused:
            state.certificate()
        assert str(refused.value).startswith(BROKEN.partition(" (")[0].format(folder=tmp_path))


def test_moved_hub_is_followed_only_with_same_authority(tmp_path: Path) -> None:
    with State.locked(tmp_path, cluster="c1") as state:
        state.store(PAIR, hub=HUB)
        state.change_address(replace(HUB, server="https://hub:7443"))
        assert state.connection().server == "https://hub:7443"
        other = Connection(server="https://other:6443", authority=Pem(data=b"another"))
        with pytest.raises(StateError) as refused:
            state.change_address(other)
        assert str(refused.value) == OTHER_HUB.format(
            folder=tmp_path, name="c1", recorded="https://hub:7443", server="https://other:6443"
        )


def test_id_of_the_work_agent_is_stable_while_the_hub_moves(tmp_path: Path) -> None:
    with State.locked(tmp_path / "one", cluster="c1") as state:
        state.store(PAIR, hub=HUB)
        before = state.agent_id
        state.change_address(replace(HUB, server="https://hub:7443"))
        assert state.agent_id == before
    with State.locked(tmp_path / "other", cluster="c1") as other:
        assert other.agent_id != before


def test_address_of_the_hub_is_stored_as_it_was_given(tmp_path: Path) -> None:
    """OCM's agent hashes it as it is, so records of either agent have one name."""
    with State.locked(tmp_path, cluster="c1") as state:
        state.store(PAIR, hub=replace(HUB, host=f"{HUB.server}/"))
        assert (state.connection().server, state.connection().host) == (HUB.server, f"{HUB.server}/")


def test_kubeconfig_refers_to_files_beside_it() -> None:
    text = kubeconfig_for(HUB).decode()
    assert '"client-certificate": "tls.crt"' in text
    assert '"client-key": "tls.key"' in text
    assert '"tokenFile": "token"' in kubeconfig_for(HUB, token=True).decode()
