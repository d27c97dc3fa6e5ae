"""`fairway hub` as a process: its announcement, requests, signals and errors."""

import asyncio
import base64
import contextlib
import errno
import json
import logging
import os
import signal
import socket
import sqlite3
import ssl
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import yaml
from clients.talk import Talk
from cryptography import x509

import forked
from cli.hub_process import reading, refused, served
from fairway.cli.files.export import NO_FOLDER
from fairway.cli.hub.process import (
    BAD_NAME,
    BUSY,
    FOREIGN_KUBECONFIG,
    NOT_ALLOWED,
    NOT_HERE,
    NOT_KEPT,
    READ_ONLY,
    STOPPING,
    Announcement,
    SafeFormatter,
    _announce,
    _log_loop_error,
)
from fairway.cli.main import run
from fairway.cli.options.misplaced import MISPLACED
from kubehub import Settings, controllers
from kubehub.storage.entry import LOCKED
from kubehub.storage.log import FILE

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
SECRET = "c2VjcmV0IG9mIGEgdGVzdA"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def made(talk: Talk, name: str) -> int:
    code, _ = await talk.call("POST", CONFIG_MAPS, body={"metadata": {"name": name}})
    return code


# Running


def test_hub_prints_the_lines_to_paste(tmp_path: Path) -> None:
    command = ["hub", "--port", "0", "--data", tmp_path / "my hub"]
    with forked.Process(command, stdout=forked.PIPE) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().rstrip("\n") for _ in range(4)]
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == f"{STOPPING}\n"
    assert process.returncode == 0
    assert lines[0].startswith("hub ready at https://127.0.0.1:")
    assert lines[0].endswith(f", data in {tmp_path / 'my hub'}")
    assert lines[1:3] == [
        f"  export KUBECONFIG='{tmp_path / 'my hub' / 'admin.kubeconfig'}'",
        "  kubectl get managedclusters",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_hub_serves_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    with served(tmp_path, "--data", tmp_path / "hub") as hub:
        assert mode(hub.kubeconfig) == 0o600
        async with hub.talk() as talk:
            code, answer = await talk.call("GET", CLUSTERS)
            assert (code, answer["items"]) == (200, [])
        assert hub.stop(number) == 0
        assert hub.errors.read_text() == ""


async def test_hub_keeps_objects_over_a_restart(tmp_path: Path) -> None:
    with served(tmp_path, "--data", tmp_path / "hub") as hub:
        before = yaml.safe_load(hub.kubeconfig.read_text())
        async with hub.talk() as talk:
            assert await made(talk, "kept") == 201
        assert hub.stop() == 0
    with served(tmp_path, "--data", tmp_path / "hub", "--durability", "normal") as hub:
        async with hub.talk() as talk:
            assert (await talk.call("GET", f"{CONFIG_MAPS}/kept"))[0] == 200
        after = yaml.safe_load(hub.kubeconfig.read_text())
    # Only the port is another: kubeconfigs handed out before go on working.
    before["clusters"][0]["cluster"]["server"] = after["clusters"][0]["cluster"]["server"]
    assert before == after


def test_hub_in_memory_leaves_no_file(tmp_path: Path) -> None:
    with served(tmp_path) as hub:
        assert hub.kubeconfig.exists()
        assert hub.stop() == 0
        assert not hub.kubeconfig.parent.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["stderr"]


async def test_hub_stops_with_open_watches(tmp_path: Path) -> None:
    with served(tmp_path) as hub:
        async with hub.talk() as talk, reading(talk, f"{CONFIG_MAPS}?watch=true") as stream:
            assert await made(talk, "seen") == 201
            while b'"seen"' not in await stream.readline():
                pass
            hub.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(aiohttp.ClientPayloadError):  # cut short, it has no proper end
                await stream.read()
        assert hub.process.wait() == 0


async def test_hub_finishes_writes_before_it_stops(tmp_path: Path) -> None:
    """Acknowledged writes are kept; for writes without a response both outcomes are allowed."""
    with served(tmp_path, "--data", tmp_path / "hub") as hub:
        async with hub.talk() as talk:
            answers: list[int] = []

            async def write(index: int) -> str | None:
                try:
                    code = await made(talk, f"map-{index}")
                except aiohttp.ClientError:
                    return None
                answers.append(code)
                if len(answers) == 20:
                    hub.process.send_signal(signal.SIGTERM)
                return f"map-{index}" if code == 201 else None

            acknowledged = set(filter(None, await asyncio.gather(*map(write, range(400)))))
        assert hub.process.wait() == 0
        assert len(acknowledged) >= 20
    with sqlite3.connect(tmp_path / "hub" / FILE) as log:
        kept = {name for (name,) in log.execute("SELECT name FROM log WHERE resource = 'configmaps'")}
    log.close()
    assert acknowledged <= kept


# Options


def test_second_hub_on_the_same_folder_exits_2(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    with served(tmp_path, "--data", folder) as hub:
        told = refused("--data", folder, "--port", "0")
        assert told == f"fairway: {LOCKED.format(path=folder, holder=f'process {hub.process.pid}')}\n"
        assert hub.stop() == 0


def test_hub_on_a_port_in_use_exits_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused("--port", port) == f"fairway: {BUSY.format(host='127.0.0.1', port=port)}\n"


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_hub_on_a_foreign_address_exits_2(host: str) -> None:
    assert refused("--host", host, "--port", "0") == f"fairway: {NOT_HERE.format(host=host)}\n"


def test_hub_on_a_privileged_port_exits_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "fairway.cli.hub.process.running", failing(OSError(errno.EACCES, "Permission denied"))
    )
    assert run(["hub", "--port", "443"]) == 2
    assert capsys.readouterr().err == f"fairway: {NOT_ALLOWED.format(host='127.0.0.1', port=443)}\n"


def test_hub_with_an_unusable_folder_exits_2(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = refused("--data", tmp_path / "file" / "hub", "--port", "0")
    assert str(tmp_path / "file" / "hub") in told
    assert "Not a directory" in told


def test_hub_without_rejects_unknown_controllers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hub", "--without", "namespaces"]) == 2
    told = capsys.readouterr().err
    assert "'namespaces' is not one of" in told
    assert all(repr(part) in told for part in controllers.ALL)


async def test_hub_without_service_accounts_publishes_its_certificate(tmp_path: Path) -> None:
    with served(tmp_path, "--without", "serviceaccount") as hub:
        async with hub.talk() as talk:
            path = "/api/v1/namespaces/new"
            await talk.call("POST", "/api/v1/namespaces", body={"metadata": {"name": "new"}})
            async with reading(talk, f"{path}/configmaps?watch=true") as stream:
                assert b"kube-root-ca.crt" in await stream.readline()
            code, accounts = await talk.call("GET", f"{path}/serviceaccounts")
            assert (code, accounts["items"]) == (200, [])


async def test_hub_without_crds_serves_only_built_in_kinds(tmp_path: Path) -> None:
    with served(tmp_path, "--no-crds") as hub:
        async with hub.talk() as talk:
            assert (await talk.call("GET", CLUSTERS))[0] == 404
            code, answer = await talk.call("GET", "/api/v1/namespaces")
            assert (code, len(answer["items"])) == (200, 4)


async def test_hub_accepts_static_tokens(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(f'{SECRET},robot,7,"system:masters"\n')
    with served(tmp_path, "--token-file", tokens) as hub:
        async with Talk(url=hub.url, context=trust(hub.kubeconfig), token=SECRET) as robot:
            code, review = await robot.call(
                "POST",
                "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
            )
        assert (code, review["status"]["userInfo"]["username"]) == (201, "robot")


def trust(kubeconfig: Path) -> ssl.SSLContext:
    """A TLS context that trusts the hub, without a client certificate."""
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    return ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())


@pytest.mark.parametrize("content", [f"{SECRET},only-two-columns\n".encode(), SECRET.encode() + b"\xff,\x00"])
def test_invalid_token_file_is_not_quoted(tmp_path: Path, content: bytes) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_bytes(content)
    told = refused("--token-file", tokens)
    assert str(tokens) in told
    assert SECRET not in told


def test_hub_certificate_has_additional_names(tmp_path: Path) -> None:
    with served(tmp_path, "--data", tmp_path / "hub", "--name", "hub.example.com", "--name", "192.0.2.7"):
        certificate = x509.load_pem_x509_certificate((tmp_path / "hub" / "pki" / "serving.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "hub.example.com" in names.get_values_for_type(x509.DNSName)
    assert "192.0.2.7" in map(str, names.get_values_for_type(x509.IPAddress))
    assert refused("--name", "not a name") == f"fairway: {BAD_NAME.format(name='not a name')}\n"


def test_hub_writes_the_kubeconfig_to_the_given_path(tmp_path: Path) -> None:
    file = tmp_path / "own" / "kubeconfig"
    file.parent.mkdir()
    for _ in range(2):  # the second time it replaces its own
        with served(tmp_path, "--kubeconfig-out", file) as hub:
            assert hub.kubeconfig == file
            assert mode(file) == 0o600
            assert hub.stop() == 0
            assert [path.name for path in file.parent.iterdir()] == ["kubeconfig"]


def test_hub_creates_no_folder_for_a_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "mistyped" / "kubeconfig"
    told = refused("--kubeconfig-out", file, "--port", "0")
    assert told == f"fairway: {NO_FOLDER.format(option='--kubeconfig-out', path=file, folder=file.parent)}\n"
    assert not file.parent.exists()


@pytest.mark.parametrize(
    "content", ["clusters: [{name: production, cluster: {}}]\n", "not a kubeconfig\n", "{unbalanced"]
)
def test_hub_does_not_replace_a_foreign_kubeconfig(tmp_path: Path, content: str) -> None:
    file = tmp_path / "config"
    file.write_text(content)
    told = refused("--kubeconfig-out", file, "--port", "0")
    assert told == f"fairway: {FOREIGN_KUBECONFIG.format(path=file)}\n"
    assert file.read_text() == content


async def test_hub_writes_an_audit_log(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    with served(tmp_path, "--audit-log", file) as hub:
        async with hub.talk() as talk:
            assert await made(talk, "seen") == 201
        assert hub.stop() == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    (line,) = (line for line in lines if line["verb"] == "create")
    assert (line["objectRef"]["resource"], line["responseStatus"]["code"]) == ("configmaps", 201)
    assert mode(file) == 0o600
    assert str(tmp_path / "no") in refused("--audit-log", tmp_path / "no" / "audit.jsonl")


def test_hub_data_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    folder.mkdir(mode=0o755)
    with served(tmp_path, "--data", folder) as hub:
        assert {path.name: mode(path) for path in folder.iterdir() if mode(path) & 0o077} == {}
        assert hub.stop() == 0
        assert {path.name: mode(path) for path in folder.rglob("*") if mode(path) & 0o077} == {}


def test_new_data_folder_is_private_and_ignored_by_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    folder = tmp_path / "hub"
    with served(tmp_path, "--data", folder) as hub:
        assert hub.stop() == 0
    assert mode(folder) == 0o700
    status = ["git", "-C", str(tmp_path), "status", "--porcelain", "--untracked-files=all", "hub"]
    assert subprocess.run(status, capture_output=True, text=True, check=True).stdout == ""


def test_folder_with_other_files_gets_no_gitignore(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with served(tmp_path, "--data", folder) as hub:
        assert hub.stop() == 0
    assert not (folder / ".gitignore").exists()


def test_hub_options_before_a_subcommand_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["hub", "--data", str(tmp_path), "--port", "0", "check"]) == 2
    assert MISPLACED.format(options="--data, --port", command="hub check") in capsys.readouterr().err
    assert run(["hub", "bakcup"]) == 2
    assert "Did you mean 'backup'?" in capsys.readouterr().err
    assert run(["hub", "start"]) == 2
    assert "known: backup, restore, check" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["backup"], ["restore"], ["check"], ["renew-pki"]])
def test_hub_help_has_examples(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hub", *command, "--help"]) == 0
    assert "Examples:\n" in capsys.readouterr().out


# Trouble


def test_hub_does_not_change_damaged_data(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    folder.mkdir()
    (folder / FILE).write_bytes(b"not a database" * 100)
    told = refused("--data", folder, "--port", "0")
    assert "is damaged" in told
    assert "fairway hub check" in told
    assert (folder / FILE).read_bytes() == b"not a database" * 100


def test_damaged_keys_are_not_quoted_in_errors(tmp_path: Path) -> None:
    (tmp_path / "hub" / "pki").mkdir(parents=True)
    (tmp_path / "hub" / "pki" / "ca.pem").write_text(f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n")
    told = refused("--data", tmp_path / "hub", "--port", "0")
    assert "pki/ca.pem" in told
    assert "fairway hub renew-pki" in told
    assert SECRET not in told


def failing(error: Exception) -> Any:
    class Failing(contextlib.AbstractAsyncContextManager[None]):
        async def __aenter__(self) -> None:
            raise error

        async def __aexit__(self, *_: object) -> None: ...

    return lambda _: Failing()


def test_internal_hub_error_names_the_place_without_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fairway.cli.hub.process.running", failing(ValueError(SECRET)))
    monkeypatch.delenv("FAIRWAY_DEBUG", raising=False)
    assert run(["hub"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("fairway: the hub failed: ValueError in test_hub.py:")
    assert SECRET not in told
    monkeypatch.setenv("FAIRWAY_DEBUG", "1")
    with pytest.raises(ValueError, match=SECRET):
        run(["hub"])


def test_hub_log_has_no_exception_messages() -> None:
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        record = logging.LogRecord(
            name="fairway",
            level=logging.ERROR,
            pathname=__file__,
            lineno=1,
            msg="PUT %s failed",
            args=("/x",),
            exc_info=(ValueError, error, error.__traceback__),
        )
    written = SafeFormatter().format(record)
    assert written.startswith("PUT /x failed\n")
    assert "test_hub_log_has_no_exception_messages" in written
    assert written.endswith("ValueError")
    assert SECRET not in written


async def test_event_loop_errors_are_logged_without_messages(caplog: pytest.LogCaptureFixture) -> None:
    _log_loop_error(
        asyncio.get_running_loop(),
        {"message": "Task exception was never retrieved", "exception": ValueError(SECRET), "task": SECRET},
    )
    (record,) = caplog.records
    assert record.getMessage() == "Task exception was never retrieved"
    assert SECRET not in SafeFormatter().format(record)


def test_hub_restores_the_umask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairway.cli.hub.process.running", failing(OSError(errno.EADDRINUSE, "in use")))
    before = os.umask(0o022)
    try:
        assert run(["hub"]) == 2
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_read_only_hub_is_announced_as_read_only(capsys: pytest.CaptureFixture[str]) -> None:
    url, reason = "https://127.0.0.1:6443", "log.db: no space left on device"
    hub: Any = SimpleNamespace(url=url, store=SimpleNamespace(read_only=reason))
    _announce(hub, Settings(), Path("kubeconfig"), "table", Announcement())
    first = capsys.readouterr().out.splitlines()[0]
    assert first == READ_ONLY.format(url=url, kept=NOT_KEPT, reason=reason)


def test_hub_announces_storage_and_addresses() -> None:
    command = ["hub", "--port", "0", "--no-crds", "--host", "0.0.0.0", "-v"]
    with forked.Process(command, stdout=forked.PIPE, stderr=forked.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline().rstrip("\n") for _ in range(5)]
        process.send_signal(signal.SIGTERM)
        errors = process.stderr.read()
    assert process.returncode == 0
    assert lines[0].endswith(NOT_KEPT)
    assert "all addresses" in lines[1]
    assert lines[3] == "  kubectl get namespaces"
    assert "INFO fairway.cli.hub.process: stopped" in errors
