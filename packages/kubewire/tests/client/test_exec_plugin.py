"""Exec plugins: real programs, run as rarely as can be."""

import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from client.authority import Authority
from client.conftest import QUICK

from kubewire.client import exec_plugin, kubeconfig
from kubewire.client.credentials import Proof
from kubewire.client.errors import CredentialError
from kubewire.client.exec_plugin import ExecPlugin, ExecSpec, ExecVariable
from kubewire.client.rest import Client
from rigs.fake_server import FakeServer

V1, V1BETA1 = exec_plugin.VERSIONS
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

PROGRAM = """#!{python}
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
with open(here / "calls", "a") as file:
    file.write(json.dumps({{
        "args": sys.argv[1:],
        "info": json.loads(os.environ["KUBERNETES_EXEC_INFO"]),
        "flavour": os.environ.get("FLAVOUR"),
        "stdin": sys.stdin.read(),
    }}) + "\\n")
sys.stdout.write((here / "answer").read_text())
sys.stderr.write((here / "complaint").read_text())
sys.exit(int((here / "code").read_text()))
"""


class Program:
    """A plugin with scripted answers, which records its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "plugin"
        self.path.write_text(PROGRAM.format(python=sys.executable), encoding="utf-8")
        self.path.chmod(0o755)
        self.answers(token="one")

    def answers(self, *, version: str = V1, code: int = 0, complaint: str = "", **status: Any) -> None:
        self.says({"kind": "ExecCredential", "apiVersion": version, "status": status}, code, complaint)

    def says(self, answer: object, code: int = 0, complaint: str = "") -> None:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        for name, content in (("answer", text), ("code", str(code)), ("complaint", complaint)):
            (self.folder / name).write_text(content, encoding="utf-8")

    @property
    def calls(self) -> list[dict[str, Any]]:
        file = self.folder / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def plugin(self, *, clock: Callable[[], datetime] = lambda: NOW, **options: Any) -> ExecPlugin:
        fields = {"command": str(self.path), "api_version": V1, "interactive_mode": "Never"}
        spec = ExecSpec(**{**fields, **options.pop("spec", {})})
        return ExecPlugin(spec, clock=clock, **options)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


async def test_plugin_gets_arguments_and_environment(program: Program) -> None:
    spec = {"args": ("get", "it"), "env": (ExecVariable(name="FLAVOUR", value="plum"),)}
    plugin = program.plugin(spec=spec, cluster={"server": "https://x"})
    assert await plugin.proof() == Proof("Bearer one")
    assert program.calls == [
        {
            "args": ["get", "it"],
            "info": {"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": False}},
            "flavour": "plum",
            "stdin": "",
        }
    ]


async def test_plugin_gets_cluster_info_on_request(program: Program) -> None:
    cluster = {"server": "https://x", "config": {"audience": 7}}
    await program.plugin(spec={"provide_cluster_info": True}, cluster=cluster).proof()
    assert program.calls[0]["info"]["spec"] == {"interactive": False, "cluster": cluster}


async def test_concurrent_requests_run_the_plugin_once(program: Program) -> None:
    plugin = program.plugin()
    await plugin.proof()
    await plugin.proof()
    assert len(program.calls) == 1


async def test_plugin_runs_again_when_its_credentials_expire(program: Program) -> None:
    moment = NOW
    program.answers(token="one", expirationTimestamp="2026-03-01T12:10:00Z")
    plugin = program.plugin(clock=lambda: moment)
    assert await plugin.proof() == Proof("Bearer one")
    program.answers(token="two", expirationTimestamp="2026-03-01T12:20:00+00:00")
    moment = NOW + timedelta(minutes=9)
    assert await plugin.proof() == Proof("Bearer one")
    moment = NOW + timedelta(minutes=10)
    assert await plugin.proof() == Proof("Bearer two")
    assert len(program.calls) == 2


async def test_plugin_runs_again_after_a_401(program: Program) -> None:
    plugin = program.plugin()
    first = await plugin.proof()
    program.answers(token="two")
    assert await plugin.renew(first)
    # Others were rejected with the old one, too.
    assert await plugin.renew(first)
    assert await plugin.proof() == Proof("Bearer two")
    assert len(program.calls) == 2
    assert not await plugin.renew(Proof("Bearer two"))
    assert len(program.calls) == 3


async def test_plugin_returns_a_certificate(program: Program) -> None:
    pair = Authority().client("jane")
    program.answers(
        version=V1BETA1, clientCertificateData=pair.chain.decode(), clientKeyData=pair.key.decode()
    )
    proof = await program.plugin(spec={"api_version": V1BETA1}).proof()
    assert proof.authorization == ""
    assert proof.certificate is not None
    assert (proof.certificate.chain, proof.certificate.key) == (pair.chain, pair.key)


class TestTerminals:
    @pytest.mark.parametrize(
        ("mode", "terminal", "interactive"),
        [("Never", True, False), ("Never", False, False), ("IfAvailable", False, False)],
    )
    async def test_plugin_is_interactive_only_with_a_terminal(
        self, program: Program, mode: str, terminal: bool, interactive: bool
    ) -> None:
        await program.plugin(spec={"interactive_mode": mode}, terminal=lambda: terminal).proof()
        assert program.calls[0]["info"]["spec"] == {"interactive": interactive}

    async def test_interactive_plugin_without_terminal_is_rejected(self, program: Program) -> None:
        plugin = program.plugin(spec={"interactive_mode": "Always"}, terminal=lambda: False)
        with pytest.raises(CredentialError, match="needs a terminal"):
            await plugin.proof()
        assert program.calls == []

    async def test_v1beta1_plugin_is_interactive_if_possible(self, program: Program) -> None:
        program.answers(version=V1BETA1, token="one")
        spec = {"interactive_mode": "", "api_version": V1BETA1}
        await program.plugin(spec=spec, terminal=lambda: False).proof()
        assert program.calls[0]["info"]["spec"] == {"interactive": False}

    async def test_interactive_plugin_inherits_stdin(self, program: Program, tmp_path: Path) -> None:
        """Our standard input is put in place of a terminal."""
        typed = tmp_path / "typed"
        typed.write_text("my password", encoding="utf-8")
        kept = os.dup(0)
        file = os.open(typed, os.O_RDONLY)
        try:
            os.dup2(file, 0)
            await program.plugin(spec={"interactive_mode": "Always"}, terminal=lambda: True).proof()
        finally:
            os.dup2(kept, 0)
            os.close(kept)
            os.close(file)
        assert program.calls[0]["stdin"] == "my password"
        assert program.calls[0]["info"]["spec"] == {"interactive": True}


class TestFailures:
    async def refusal(self, plugin: ExecPlugin) -> str:
        with pytest.raises(CredentialError) as caught:
            await plugin.proof()
        assert "secret" not in str(caught.value)
        return str(caught.value)

    async def test_missing_plugin_is_reported(self, tmp_path: Path) -> None:
        spec = ExecSpec(
            command="no-such-plugin",
            api_version=V1,
            interactive_mode="Never",
            install_hint="get it from the shop\n",
        )
        message = await self.refusal(ExecPlugin(spec))
        assert message == "exec plugin 'no-such-plugin' is not installed; get it from the shop"

    async def test_plugin_that_is_not_executable_is_reported(self, program: Program) -> None:
        program.path.write_text("no program at all", encoding="utf-8")
        assert "cannot be started (Exec format error)" in await self.refusal(program.plugin())

    async def test_failing_plugin_is_reported(self, program: Program) -> None:
        program.answers(token="secret", code=3, complaint="log in\n  first")
        assert (await self.refusal(program.plugin())).endswith("failed with exit code 3: log in first")

    async def test_plugin_failure_is_not_cached(self, program: Program) -> None:
        plugin = program.plugin()
        program.answers(token="secret", code=3)
        await self.refusal(plugin)
        program.answers(token="two")
        assert await plugin.proof() == Proof("Bearer two")

    @pytest.mark.parametrize(
        "answer",
        ["", "secret", '"secret"', {"kind": "Pod", "apiVersion": V1, "status": {"token": "secret"}}],
        ids=["nothing", "text", "JSON", "another kind"],
    )
    async def test_plugin_with_invalid_output_is_reported(self, program: Program, answer: object) -> None:
        program.says(answer)
        assert "did not return an ExecCredential" in await self.refusal(program.plugin())

    async def test_plugin_output_of_another_version_is_rejected(self, program: Program) -> None:
        program.answers(version=V1BETA1, token="secret")
        assert f"returned apiVersion '{V1BETA1}', expected '{V1}'" in await self.refusal(program.plugin())

    async def test_plugin_output_without_credentials_is_rejected(self, program: Program) -> None:
        program.answers(expirationTimestamp="2026-03-01T12:10:00Z")
        assert "neither a token nor a certificate" in await self.refusal(program.plugin())
        program.says({"kind": "ExecCredential", "apiVersion": V1})
        assert "neither a token nor a certificate" in await self.refusal(program.plugin())

    async def test_certificate_without_a_key_is_rejected(self, program: Program) -> None:
        program.answers(clientCertificateData="x")
        assert "only one of certificate and key" in await self.refusal(program.plugin())

    async def test_plugin_that_does_not_end_times_out(self, program: Program, tmp_path: Path) -> None:
        """Neither the plugin nor the program it started is left behind: a pipe that both hold ends."""
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        program.path.write_text(f'#!/bin/sh\nexec 3>"{pipe}"\ntail -f /dev/null\n', encoding="utf-8")
        try:
            message = await self.refusal(program.plugin(timeout=0.3))
            assert message.endswith("timed out after 0.3 s")
            os.set_blocking(reader, True)
            assert os.read(reader, 1) == b""
        finally:
            os.close(reader)


async def test_plugin_of_a_kubeconfig_authenticates_at_the_hub(
    program: Program, hub: FakeServer, tmp_path: Path
) -> None:
    """The command is found beside the kubeconfig, and a rejected token is replaced once, for all who wait."""
    hub.tokens = {"two"}
    (tmp_path / "config").write_text(
        f"""
current-context: x
contexts: [{{name: x, context: {{cluster: x, user: x}}}}]
users:
- name: x
  user:
    exec: {{command: ./plugin, apiVersion: {V1}, interactiveMode: Never, args: null, env: null,
            provideClusterInfo: true}}
clusters:
- name: x
  cluster:
    server: {hub.url}
    extensions:
    - {{name: other, extension: {{}}}}
    - {{name: {kubeconfig.EXEC_EXTENSION}, extension: {{audience: 7, enabled: true}}}}
""",
        encoding="utf-8",
    )
    connection = kubeconfig.load(tmp_path / "config").context(environ={})
    async with Client(connection, retry=QUICK) as client:
        program.answers(token="one")
        await connection.credentials.proof()
        program.answers(token="two")
        response = await client.request("GET", "/apis/x/managedclusters")
        assert response.status == 200
    assert [request.headers["Authorization"] for request in hub.requests] == ["Bearer one", "Bearer two"]
    assert program.calls[0]["info"]["spec"]["cluster"] == {
        "server": hub.url,
        "config": {"audience": 7, "enabled": True},
    }
    assert len(program.calls) == 2


def test_plugin_repr_has_no_secrets(program: Program) -> None:
    assert repr(program.plugin()) == f"<ExecPlugin {program.path}>"
    variable = ExecVariable(name="PASSWORD", value="secret")
    assert repr(variable) == "<ExecVariable PASSWORD>"
    assert repr(ExecSpec(command="x", args=("--password=secret",), env=(variable,))) == "<ExecSpec x>"
