"""Backup, restore, check, and manifests for another hub."""

import json
import sqlite3
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from clients.talk import Talk

from cli.hub_process import reading
from fairway.cli.hub.data import EXISTS, KEYS_BACK, KEYS_LACKING, ONE_PLACE, ONLY_MANIFESTS
from fairway.cli.main import run
from fairway.testing.hub import embedded_hub
from kubehub.backup import KEYS_NOT_RESTORED, NO_BACKUP, NO_DATA
from kubehub.hub import Hub
from kubehub.storage import archive
from kubehub.storage.archive import TARGET_HAS_DATA
from kubehub.storage.entry import LOCKED
from kubehub.storage.log import FILE

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
PLACEMENTS = "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/apps/placements"
KEYS = ["admin.pem", "ca.crt", "ca.pem", "serving.pem", "tokens.pem"]


@asynccontextmanager
async def talking(folder: Path) -> AsyncIterator[tuple[Hub, Talk]]:
    async with embedded_hub(folder=folder) as hub:
        context = ssl.create_default_context(cadata=hub.authority_pem)
        pair = folder / "pki" / "admin.pem"
        context.load_cert_chain(pair)
        async with Talk(url=hub.url, context=context) as talk:
            yield hub, talk


async def create(talk: Talk, path: str, **document: Any) -> dict[str, Any]:
    code, answer = await talk.call("POST", path, body=document)
    assert code == 201, answer
    made: dict[str, Any] = answer
    return made


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A data folder with objects of several kinds."""
    folder = tmp_path / "hub"
    cluster = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"}
    placement = {"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement"}
    async with talking(folder) as (_, talk):
        await create(talk, "/api/v1/namespaces", metadata=meta("apps", labels={"team": "a"}))
        await create(talk, CLUSTERS, **cluster, metadata=meta("c1"), spec={"hubAcceptsClient": True})
        status = {"version": {"kubernetes": "v1.36.0"}, "conditions": []}
        code, _ = await talk.call(
            "PATCH", f"{CLUSTERS}/c1/status", body={"status": status}, type_="application/merge-patch+json"
        )
        assert code == 200
        owner = await create(talk, PLACEMENTS, **placement, metadata=meta("p1"), spec={})
        reference = {
            "apiVersion": placement["apiVersion"],
            "kind": "Placement",
            "name": "p1",
            "uid": owner["metadata"]["uid"],
        }
        apps = "/api/v1/namespaces/apps"
        await create(talk, f"{apps}/configmaps", metadata=meta("owned", ownerReferences=[reference]))
        await create(talk, f"{apps}/secrets", metadata=meta("password"), stringData={"a": "b"})
        await create(talk, f"{apps}/serviceaccounts", metadata=meta("robot"))
        token = meta("robot-token", annotations={"kubernetes.io/service-account.name": "robot"})
        await create(talk, f"{apps}/secrets", metadata=token, type="kubernetes.io/service-account-token")
        await create(
            talk,
            f"{apps}/events",
            metadata=meta("happened"),
            involvedObject={"kind": "Placement", "namespace": "apps", "name": "p1"},
        )
        await create(
            talk, "/apis/coordination.k8s.io/v1/namespaces/apps/leases", metadata=meta("held"), spec={}
        )
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        jobs = "/apis/batch/v1/namespaces/apps/jobs"
        await create(talk, jobs, metadata=meta("once"), spec={"template": template})
        marked = {"metadata": {"labels": {"mine": "yes"}}} | template
        manual = {"manualSelector": True, "selector": {"matchLabels": {"mine": "yes"}}, "template": marked}
        await create(talk, jobs, metadata=meta("by-hand"), spec=manual)
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        await create(talk, roles, metadata=meta("viewer"), rules=[])
        # What the hub does by itself is done, so that nothing is written later on.
        await until_text(talk, f"{apps}/secrets", "robot-token", b'"token":')
        for namespace in ("apps", "default"):
            await appeared(talk, namespace)
    return folder


async def appeared(talk: Talk, namespace: str) -> None:
    """Objects that the hub creates in every namespace."""
    where = f"/api/v1/namespaces/{namespace}"
    await until_text(talk, f"{where}/configmaps", "kube-root-ca.crt", b"kube-root-ca.crt")
    await until_text(talk, f"{where}/serviceaccounts", "default", b"default")


async def until_text(talk: Talk, resource: str, name: str, words: bytes) -> None:
    """Wait until the object contains the text."""
    async with reading(talk, f"{resource}?watch=true&fieldSelector=metadata.name={name}") as stream:
        while words not in (line := await stream.readline()):
            assert line, f"{resource}/{name}: the watch has ended"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Backup and restore


async def test_kubeconfigs_and_tokens_are_valid_after_restore(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    async with talking(folder) as (_, talk):
        answer = await create(talk, f"{ACCOUNTS}/default/token", **request)
        certificate = ssl.create_default_context(cafile=str(folder / "pki" / "ca.crt"))
        administrator = (folder / "pki" / "admin.pem").read_bytes()
        # While the hub runs.
        assert run(["hub", "check", "--data", str(folder)]) == 0
        assert run(["hub", "backup", "--data", str(folder), "--out", str(tmp_path / "backup")]) == 0
        before = await objects(talk)
    assert capsys.readouterr().out.endswith(" and 5 key files\n")

    again = tmp_path / "again"
    assert run(["hub", "restore", str(tmp_path / "backup"), "--data", str(again)]) == 0
    assert KEYS_BACK in capsys.readouterr().out
    assert names(again / "pki") == KEYS
    assert (again / "pki" / "admin.pem").read_bytes() == administrator
    assert {path.name for path in again.rglob("*") if mode(path) & 0o077} == set()
    async with embedded_hub(folder=again) as hub:
        # The old trust, the old token.
        async with Talk(url=hub.url, context=certificate, token=answer["status"]["token"]) as account:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            code, answer = await account.call(
                "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review
            )
        assert (code, answer["status"]["userInfo"]["username"]) == (
            201,
            "system:serviceaccount:default:default",
        )
        certificate.load_cert_chain(folder / "pki" / "admin.pem")
        async with Talk(url=hub.url, context=certificate) as talk:
            assert await objects(talk) == before


async def objects(talk: Talk) -> list[Any]:
    collected = []
    for path in (CLUSTERS, PLACEMENTS, "/api/v1/secrets", "/api/v1/namespaces"):
        code, listed = await talk.call("GET", path)
        assert code == 200
        collected += listed["items"]
    return collected


def test_backup_is_one_private_file(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").mkdir()
    file = tmp_path / "out" / "hub.backup"
    arguments = ["hub", "backup", "--data", str(folder), "--out", str(file)]
    assert run([*arguments, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["keys"] == KEYS
    assert told["objects"] == archive.check(folder).objects
    assert names(file.parent) == ["hub.backup"]
    assert mode(file) == 0o600
    first = file.read_bytes()

    assert run(arguments) == 2
    assert capsys.readouterr().err == f"fairway: {EXISTS.format(path=file)}\n"
    assert file.read_bytes() == first
    file.write_text("something older")
    assert run([*arguments, "--force"]) == 0
    assert run(["hub", "check", str(file)]) == 0
    assert names(file.parent) == ["hub.backup"]


@pytest.mark.parametrize("command", [["backup", "--out", "x"], ["backup", "--out", "x.yaml"], ["check"]])
def test_backup_of_a_folder_without_data_exits_2(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert run(["hub", *command, "--data", "empty"]) == 2
    assert capsys.readouterr().err == f"fairway: {NO_DATA.format(path='empty')}\n"
    assert names(tmp_path) == ["empty"]
    assert run(["hub", *command, "--data", "nowhere"]) == 2
    assert "'nowhere' does not exist" in capsys.readouterr().err


def test_backup_to_an_unwritable_place_exits_2(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["hub", "backup", "--data", str(folder), "--out", str(tmp_path / "no" / "b")]) == 2
    assert str(tmp_path / "no") in capsys.readouterr().err
    assert run(["hub", "backup", "--data", str(folder), "--out", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


async def test_restore_replaces_data_only_with_force(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "backup"
    assert run(["hub", "backup", "--data", str(folder), "--out", str(file)]) == 0
    other = tmp_path / "other"
    async with talking(other) as (_, talk):
        await create(talk, "/api/v1/namespaces", metadata=meta("later"))
        arguments = ["hub", "restore", str(file), "--data", str(other)]
        capsys.readouterr()
        assert run([*arguments, "--force"]) == 2
        told = capsys.readouterr().err
        assert told.startswith(f"fairway: {LOCKED.format(path=other, holder='process')[:30]}")
    key = (other / "pki" / "ca.pem").read_bytes()
    assert run(arguments) == 2
    assert capsys.readouterr().err == f"fairway: {TARGET_HAS_DATA.format(path=other)}\n"
    assert (other / "pki" / "ca.pem").read_bytes() == key
    assert run([*arguments, "--force", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["keys"] == KEYS
    assert (other / "pki" / "ca.pem").read_bytes() == (folder / "pki" / "ca.pem").read_bytes()
    async with talking(other) as (_, talk):
        assert (await talk.call("GET", "/api/v1/namespaces/later"))[0] == 404
        assert (await talk.call("GET", f"{CLUSTERS}/c1"))[0] == 200


def test_restore_of_a_backup_without_keys_says_so(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive.backup(folder, tmp_path / "objects")
    assert run(["hub", "restore", str(tmp_path / "objects"), "--data", str(tmp_path / "new")]) == 0
    assert KEYS_LACKING in capsys.readouterr().out
    assert not (tmp_path / "new" / "pki").exists()


@pytest.mark.parametrize("content", [b"kind: List\n", b"", b"x" * 4096])
def test_restore_of_another_file_exits_2(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    assert run(["hub", "restore", str(file), "--data", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err == f"fairway: {NO_BACKUP.format(path=file)}\n"
    assert names(tmp_path) == ["file"]


def damage_keys(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE keys SET content = zeroblob(9) WHERE name = 'ca.pem'")
        connection.commit()


def cut_short(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def damage_row(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE log SET raw = '{}' WHERE name = 'c1'")
        connection.commit()


@pytest.mark.parametrize("damage", [damage_keys, cut_short, damage_row])
def test_damaged_backup_is_not_restored(
    damage: Any, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "backup", tmp_path / "other"
    assert run(["hub", "backup", "--data", str(folder), "--out", str(file)]) == 0
    assert run(["hub", "restore", str(file), "--data", str(other)]) == 0
    before = (other / FILE).read_bytes()
    damage(file)
    capsys.readouterr()
    assert run(["hub", "check", str(file)]) == 1
    assert capsys.readouterr().out.split()[:2] == ["REVISION", "PROBLEM"]
    assert run(["hub", "restore", str(file), "--data", str(other), "--force"]) == 2
    assert f"{file} is damaged" in capsys.readouterr().err
    assert (other / FILE).read_bytes() == before


def test_restore_reports_keys_it_cannot_write(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "backup", tmp_path / "other"
    assert run(["hub", "backup", "--data", str(folder), "--out", str(file)]) == 0
    other.mkdir()
    (other / "pki").touch()
    capsys.readouterr()
    assert run(["hub", "restore", str(file), "--data", str(other)]) == 2
    told = capsys.readouterr().err
    start, _, end = KEYS_NOT_RESTORED.format(reason="|", folder=other).partition("|")
    assert start in told
    assert end in told


# Check


def test_check_of_undamaged_data_exits_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hub", "check", "--data", str(folder)]) == 0
    assert capsys.readouterr().out.startswith(f"{folder}: no damage found, ")
    assert run(["hub", "check", "--data", str(folder), "-o", "yaml"]) == 0
    told = yaml.safe_load(capsys.readouterr().out)
    assert told["problems"] == []
    assert told["objects"] <= told["rows"]


def test_check_lists_damage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage_row(folder / FILE)
    (folder / "pki" / "ca.pem").write_bytes(b"")
    assert run(["hub", "check", "--data", str(folder), "-o", "json"]) == 1
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert {"revision": None, "problem": "cannot read pki/ca.pem: the file is empty"} in problems
    assert any(row["problem"] == "doesn't match its checksum" and row["revision"] for row in problems)


def test_check_needs_exactly_one_of_file_and_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hub", "check"]) == 2
    assert ONE_PLACE in capsys.readouterr().err
    assert run(["hub", "check", str(folder / FILE), "--data", str(folder)]) == 2
    assert ONE_PLACE in capsys.readouterr().err
    assert run(["hub", "check", str(folder)]) == 0


# Manifests


def written(capsysbinary: pytest.CaptureFixture[bytes], folder: Path, *more: str) -> list[dict[str, Any]]:
    assert run(["hub", "backup", "--data", str(folder), "--out", "-", "--format", "manifests", *more]) == 0
    return [document for document in yaml.safe_load_all(capsysbinary.readouterr().out) if document]


def described(document: dict[str, Any]) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def test_backup_manifests_have_the_objects_another_hub_lacks(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    documents = written(capsysbinary, folder)
    kinds = [document["kind"] for document in documents]
    definitions = kinds.count("CustomResourceDefinition")
    assert definitions > 0
    assert set(kinds[:definitions]) == {"CustomResourceDefinition"}
    assert described(documents[definitions]) == ("Namespace", "apps")
    assert sorted(map(described, documents[definitions:])) == [
        ("ClusterRole", "viewer"),
        ("ConfigMap", "owned"),
        ("Job", "by-hand"),
        ("Job", "once"),
        ("ManagedCluster", "c1"),
        ("Namespace", "apps"),
        ("Placement", "p1"),
        ("Secret", "password"),
        ("ServiceAccount", "robot"),
    ]
    own = ("uid", "resourceVersion", "managedFields", "creationTimestamp", "generation", "ownerReferences")
    for document in documents:
        assert not set(own) & set(document["metadata"])
        assert "status" not in document


async def test_backup_manifests_of_an_unused_hub_are_empty(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    async with talking(tmp_path / "new") as (_, talk):
        await appeared(talk, "default")
    assert {document["kind"] for document in written(capsysbinary, tmp_path / "new")} == {
        "CustomResourceDefinition"
    }


def test_backup_manifests_have_jobs_without_generated_fields(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    jobs = {
        document["metadata"]["name"]: document["spec"]
        for document in written(capsysbinary, folder)
        if document["kind"] == "Job"
    }
    assert "selector" not in jobs["once"]
    assert jobs["once"]["template"]["metadata"].get("labels", {}) == {}
    assert jobs["by-hand"]["selector"] == {"matchLabels": {"mine": "yes"}}


def test_backup_manifests_report_omitted_objects(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hub.json"
    assert run(["hub", "backup", "--data", str(folder), "--out", str(file)]) == 0
    told = capsys.readouterr().out
    assert "1 Event" in told
    assert "1 Lease" in told
    assert "1 Secret" in told
    assert "owner references omitted from 1 object:" in told
    assert "add --status to include it" in told
    assert f"kubectl apply --server-side -f {file}" in told
    assert mode(file) == 0o600
    documents = msgspec.json.decode(file.read_bytes())["items"]
    assert ("Placement", "p1") in map(described, documents)
    assert run(["hub", "backup", "--data", str(folder), "--out", str(file), "-o", "json"]) == 2
    assert capsys.readouterr().err == f"fairway: {EXISTS.format(path=file)}\n"
    assert run(["hub", "backup", "--data", str(folder), "--out", str(file), "-o", "json", "--force"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["ownersLeftOut"], told["leftOut"]["Event"]) == (1, 1)
    assert told["definitions"] + told["objects"] == len(documents)


def test_backup_manifests_folder_is_in_apply_order(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "moved"
    arguments = ["hub", "backup", "--data", str(folder), "--out", f"{out}/", "--format", "manifests"]
    assert run(arguments) == 0
    assert names(out) == ["definitions.yaml", "objects.yaml"]
    assert "--subresource=status" not in capsys.readouterr().out
    assert run([*arguments, "--status", "--force"]) == 0
    assert names(out) == ["definitions.yaml", "objects.yaml", "status.yaml"]
    assert f"--subresource=status --force-conflicts -f {out}/status.yaml" in capsys.readouterr().out
    parts = {path.stem: list(yaml.safe_load_all(path.read_text())) for path in out.iterdir()}
    assert {part["kind"] for part in parts["definitions"]} == {"CustomResourceDefinition"}
    for document in (*parts["definitions"], *parts["objects"]):
        assert "status" not in document
    (cluster,) = (part for part in parts["status"] if part["kind"] == "ManagedCluster")
    assert cluster == {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": "c1"},
        "status": {"version": {"kubernetes": "v1.36.0"}, "conditions": []},
    }


def test_backup_manifests_have_status_only_on_request(
    folder: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    documents = {described(document): document for document in written(capsysbinary, folder, "--status")}
    assert documents["ManagedCluster", "c1"]["status"]["version"] == {"kubernetes": "v1.36.0"}
    assert "status" not in documents["Namespace", "apps"]
    out = ["--out", str(tmp_path / "hub.backup")]
    assert run(["hub", "backup", "--data", str(folder), *out, "--status"]) == 2
    assert capsysbinary.readouterr().err == f"fairway: {ONLY_MANIFESTS}\n".encode()
