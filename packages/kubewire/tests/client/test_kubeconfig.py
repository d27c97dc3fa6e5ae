"""Kubeconfig files in all their forms, and refusals that name file, field and remedy."""

import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml
from client.authority import Authority

from kubewire.client import kubeconfig
from kubewire.client.connection import Connection, Proxy
from kubewire.client.credentials import Impersonation
from kubewire.client.errors import ConfigError
from kubewire.client.exec_plugin import ExecPlugin
from kubewire.client.kubeconfig import load

QUIET: dict[str, str] = {}


def config(**parts: Any) -> dict[str, Any]:
    """One cluster, user and context of the name ``main``, with these changed."""
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "main", "cluster": {"server": "https://hub.example:6443"}}],
        "users": [{"name": "main", "user": {"token": "secret-token"}}],
        "contexts": [{"name": "main", "context": {"cluster": "main", "user": "main"}}],
    }
    return {**made, **parts}


def cluster(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "cluster": {"server": "https://hub.example:6443", **fields}}]


def user(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "user": fields}]


def write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document), encoding="utf-8")
    return path


def connect(path: Path, document: Any, *, environ: dict[str, str] = QUIET) -> Connection:
    return load(write(path, document)).context(environ=environ)


async def authorization(connection: Connection) -> str:
    return (await connection.credentials.proof()).authorization


async def test_kubeconfig_token_is_used(tmp_path: Path) -> None:
    connection = connect(tmp_path / "c", config())
    assert connection.server == "https://hub.example:6443"
    assert connection.namespace == "default"
    assert connection.compression
    assert await authorization(connection) == "Bearer secret-token"


async def test_kubeconfig_values_like_numbers_are_strings(tmp_path: Path) -> None:
    text = """
current-context: 1.10
clusters: [{name: 0o7, cluster: {server: "https://h", insecure-skip-tls-verify: true}}]
users: [{name: yes, user: {token: 0123}}]
contexts: [{name: 1.10, context: {cluster: 0o7, user: yes, namespace: 007}}]
"""
    connection = connect(tmp_path / "c", text)
    assert await authorization(connection) == "Bearer 0123"
    assert connection.namespace == "007"
    assert connection.insecure


def test_empty_kubeconfig_values_are_ignored(tmp_path: Path) -> None:
    empty = write(tmp_path / "c", "apiVersion: v1\nclusters: null\ncontexts: null\nusers: null\n")
    with pytest.raises(ConfigError, match=kubeconfig.NO_CURRENT):
        load(empty).context()
    with pytest.raises(ConfigError, match=kubeconfig.NO_CURRENT):
        load(write(tmp_path / "d", "")).context()


def test_kubeconfig_context_selects_the_connection(tmp_path: Path) -> None:
    document = config(
        clusters=cluster(
            **{
                "tls-server-name": "other.example",
                "proxy-url": "http://me:p%40ss@proxy:3128",
                "disable-compression": True,
            }
        ),
        contexts=[{"name": "main", "context": {"cluster": "main", "user": "main", "namespace": "ns"}}],
    )
    connection = connect(tmp_path / "c", document)
    assert connection.tls_server_name == "other.example"
    assert connection.proxy == Proxy("http://proxy:3128", "Basic bWU6cEBzcw==")
    assert not connection.compression
    assert connection.namespace == "ns"


def test_kubeconfig_server_without_scheme_is_accepted(tmp_path: Path) -> None:
    plain = [{"name": "main", "cluster": {"server": "hub:8080"}}]
    assert connect(tmp_path / "c", config(clusters=plain)).server == "http://hub:8080"
    safe = [{"name": "main", "cluster": {"server": "hub:6443/", "insecure-skip-tls-verify": True}}]
    assert connect(tmp_path / "c", config(clusters=safe)).server == "https://hub:6443"


def test_kubeconfig_server_may_have_a_path(tmp_path: Path) -> None:
    document = config(clusters=[{"name": "main", "cluster": {"server": "https://r/k8s/clusters/c-1/"}}])
    connection = connect(tmp_path / "c", document)
    assert (connection.server, connection.host) == (
        "https://r/k8s/clusters/c-1",
        "https://r/k8s/clusters/c-1/",
    )


def test_kubeconfig_impersonation_is_read(tmp_path: Path) -> None:
    who = {"as": "jane", "as-uid": "7", "as-groups": ["dev", "ops"], "as-user-extra": {"a/b": ["x", "y"]}}
    connection = connect(tmp_path / "c", config(users=user(token="t", **who)))
    assert connection.impersonation == Impersonation(
        user="jane", uid="7", groups=("dev", "ops"), extra={"a/b": ("x", "y")}
    )
    assert connection.impersonation.headers() == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-a%2Fb", "x"),
        ("Impersonate-Extra-a%2Fb", "y"),
    )


async def test_kubeconfig_basic_auth_is_read(tmp_path: Path) -> None:
    connection = connect(tmp_path / "c", config(users=user(username="jane", password="p:w")))
    assert await authorization(connection) == "Basic " + b64encode(b"jane:p:w").decode()


async def test_kubeconfig_without_user_is_anonymous(tmp_path: Path) -> None:
    document = config(contexts=[{"name": "main", "context": {"cluster": "main"}}], users=None)
    assert await authorization(connect(tmp_path / "c", document)) == ""


async def test_kubeconfig_files_are_relative_to_it(tmp_path: Path) -> None:
    authority = Authority()
    pair = authority.client("jane")
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / "ca.crt").write_bytes(authority.certificate)
    pair.write(folder, "jane")
    (folder / "token").write_text("from-file\n", encoding="utf-8")
    files = {"client-certificate": "jane.crt", "client-key": "jane.key", "tokenFile": "token"}
    document = config(
        clusters=cluster(**{"certificate-authority": "ca.crt"}), users=user(**files, token="no")
    )
    connection = connect(folder / "config", document)
    proof = await connection.credentials.proof()
    assert proof.authorization == "Bearer from-file"
    assert proof.certificate is not None
    assert (proof.certificate.chain, proof.certificate.key) == (pair.chain, pair.key)
    assert connection.authority is not None
    assert connection.authority.read() == authority.certificate


async def test_kubeconfig_data_takes_precedence_over_files(tmp_path: Path) -> None:
    authority = Authority()
    pair = authority.client("jane")
    encoded = {
        "client-certificate-data": b64encode(pair.chain).decode(),
        "client-key-data": b64encode(pair.key).decode(),
    }
    files = {"client-certificate": "nowhere.crt", "client-key": "nowhere.key"}
    trust = {
        "certificate-authority-data": b64encode(authority.certificate).decode(),
        "certificate-authority": "nowhere.crt",
    }
    connection = connect(tmp_path / "c", config(clusters=cluster(**trust), users=user(**encoded, **files)))
    proof = await connection.credentials.proof()
    assert proof.certificate is not None
    assert proof.certificate.chain == pair.chain
    assert connection.authority is not None
    assert connection.authority.read() == authority.certificate


async def test_exec_plugin_beside_a_token_is_not_run(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}
    connection = connect(tmp_path / "c", config(users=user(exec=plugin, token="t")))
    assert await authorization(connection) == "Bearer t"
    connection = connect(tmp_path / "c", config(users=user(exec=plugin)))
    assert isinstance(connection.credentials, ExecPlugin)


class TestMerging:
    def files(self, tmp_path: Path, *documents: Any) -> dict[str, str]:
        paths = [write(tmp_path / f"{at}" / "config", document) for at, document in enumerate(documents)]
        return {"KUBECONFIG": os.pathsep.join(map(str, paths))}

    async def test_first_kubeconfig_wins_for_duplicate_entries(self, tmp_path: Path) -> None:
        second = config(
            **{"current-context": "other"},
            clusters=[
                {"name": "main", "cluster": {"server": "https://no", "tls-server-name": "no"}},
                {"name": "two", "cluster": {"server": "https://two"}},
            ],
            users=[{"name": "main", "user": {"token": "no"}}, {"name": "two", "user": {"token": "two"}}],
            contexts=[
                {"name": "main", "context": {"cluster": "two"}},
                {"name": "other", "context": {"cluster": "two", "user": "two"}},
            ],
        )
        merged = load(environ=self.files(tmp_path, config(), second))
        first = merged.context(environ=QUIET)
        assert (first.server, first.tls_server_name) == ("https://hub.example:6443", "")
        assert await authorization(first) == "Bearer secret-token"
        other = merged.context("other", environ=QUIET)
        assert other.server == "https://two"
        assert await authorization(other) == "Bearer two"

    def test_kubeconfig_context_may_refer_to_another_file(self, tmp_path: Path) -> None:
        only_context = {"contexts": config()["contexts"], "current-context": "main"}
        rest = {"clusters": config()["clusters"], "users": config()["users"]}
        merged = load(environ=self.files(tmp_path, only_context, rest))
        assert merged.context(environ=QUIET).server == "https://hub.example:6443"

    async def test_merged_kubeconfig_paths_are_relative_to_their_file(self, tmp_path: Path) -> None:
        one = config(users=user(tokenFile="token"))
        two = config(users=[{"name": "two", "user": {"tokenFile": "token"}}])
        two["contexts"] = [{"name": "two", "context": {"cluster": "main", "user": "two"}}]
        environ = self.files(tmp_path, one, two)
        (tmp_path / "0" / "token").write_text("zero", encoding="utf-8")
        (tmp_path / "1" / "token").write_text("one", encoding="utf-8")
        merged = load(environ=environ)
        assert await authorization(merged.context(environ=QUIET)) == "Bearer zero"
        assert await authorization(merged.context("two", environ=QUIET)) == "Bearer one"

    def test_missing_files_in_kubeconfig_variable_are_skipped(self, tmp_path: Path) -> None:
        there = write(tmp_path / "there", config())
        parts = ["", str(tmp_path / "missing"), str(there), "", str(there)]
        merged = load(environ={"KUBECONFIG": os.pathsep.join(parts)})
        assert merged.files == (there,)

    def test_default_kubeconfig_is_in_the_home_folder(self, tmp_path: Path) -> None:
        write(tmp_path / ".kube" / "config", config())
        assert load(environ={"HOME": str(tmp_path)}).current == "main"
        assert load(environ={"HOME": str(tmp_path), "KUBECONFIG": ""}).current == "main"

    def test_missing_kubeconfig_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            load(environ={"HOME": str(tmp_path)})
        assert str(caught.value) == (
            f"{tmp_path}/.kube/config: {kubeconfig.NOTHING_FOUND}; {kubeconfig.SET_VARIABLE}"
        )


class TestRefusals:
    @pytest.mark.parametrize(
        ("document", "field", "message"),
        [
            ("[1, 2]", "", "is not a kubeconfig"),
            ("a: b: c", "", "is not YAML (line 1)"),
            ("users: [{name: x, user: {token: [1]}}]", "users[0].user.token", "Expected `str`, got `array`"),
            ("users: [{user: {}}]", "users[0]", "missing required field `name`"),
            (
                "clusters: [{name: x, cluster: {insecure-skip-tls-verify: maybe}}]",
                "clusters[0].cluster.insecure-skip-tls-verify",
                "Expected `bool`",
            ),
        ],
    )
    def test_malformed_kubeconfig_is_rejected(
        self, tmp_path: Path, document: str, field: str, message: str
    ) -> None:
        path = write(tmp_path / "c", document)
        with pytest.raises(ConfigError) as caught:
            load(path)
        assert caught.value.place == str(path)
        assert caught.value.field == field
        assert message in caught.value.message
        assert caught.value.remedy

    def test_requested_kubeconfig_must_exist(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=kubeconfig.NO_SUCH_FILE):
            load(tmp_path / "missing")

    def test_kubeconfig_that_is_a_folder_is_rejected(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="cannot be read"):
            load(tmp_path)

    def test_binary_kubeconfig_is_rejected(self, tmp_path: Path) -> None:
        (tmp_path / "c").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ConfigError, match="is not YAML"):
            load(tmp_path / "c")

    @pytest.mark.parametrize(
        ("parts", "field", "message", "remedy"),
        [
            ({"current-context": ""}, "", kubeconfig.NO_CURRENT, "there are main"),
            ({"current-context": "maim"}, "", "there is no context 'maim'", "did you mean 'main'?"),
            (
                {"contexts": [{"name": "main", "context": {}}]},
                "contexts[main].context.cluster",
                kubeconfig.NO_CLUSTER,
                kubeconfig.WRITE_CLUSTER,
            ),
            (
                {"clusters": None},
                "contexts[main].context.cluster",
                "there is no cluster 'main'",
                "there are none",
            ),
            ({"users": None}, "contexts[main].context.user", "there is no user 'main'", "there are none"),
            (
                {"clusters": [{"name": "main", "cluster": {}}]},
                "server",
                "names no server",
                "write an address",
            ),
            (
                {"clusters": [{"name": "main", "cluster": {"server": "ftp://x"}}]},
                "server",
                "is not the address",
                "write an address",
            ),
            (
                {"clusters": [{"name": "main", "cluster": {"server": "https://u:secret@x"}}]},
                "server",
                "carries a user name or password",
                "user's entry",
            ),
            (
                {"clusters": cluster(**{"proxy-url": "socks5://u:secret@proxy:1080"})},
                "clusters[main].cluster.proxy-url",
                "a proxy over socks5 is not supported",
                "http://proxy.example.com:3128",
            ),
            (
                {"clusters": cluster(**{"certificate-authority": "x", "insecure-skip-tls-verify": True})},
                "insecure-skip-tls-verify",
                "together with a certificate authority",
                "remove one",
            ),
            (
                {"clusters": cluster(**{"certificate-authority-data": "not base64!"})},
                "clusters[main].cluster.certificate-authority-data",
                kubeconfig.NOT_BASE64,
                "without -data",
            ),
            (
                {"users": user(token="secret", username="jane")},
                "users[main].user",
                kubeconfig.TOKEN_AND_USER,
                kubeconfig.ONE_WAY,
            ),
            (
                {"users": user(**{"client-key": "secret"})},
                "users[main].user",
                kubeconfig.INCOMPLETE_PAIR,
                kubeconfig.GIVE_BOTH,
            ),
            (
                {"users": user(**{"auth-provider": {"name": "gcp"}})},
                "users[main].user.auth-provider",
                kubeconfig.AUTH_PROVIDER,
                kubeconfig.USE_EXEC,
            ),
            (
                {"users": user(token="secret\nsecret")},
                "users[main].user.token",
                "no HTTP header can carry",
                "paste the token again",
            ),
            (
                {"users": user(token="t", **{"as-groups": ["x"]})},
                "as",
                "without a user to act as",
                "as: <user>",
            ),
            (
                {"users": user(token="t", **{"as": "ü"})},
                "Impersonate-User",
                "outside printable ASCII",
                "printable ASCII",
            ),
            (
                {"users": user(exec={"apiVersion": "client.authentication.k8s.io/v1"})},
                "users[main].user.exec",
                "names no command",
                "set the program",
            ),
            (
                {"users": user(exec={"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"})},
                "users[main].user.exec",
                "is not supported",
                "v1beta1",
            ),
            (
                {"users": user(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "x"})},
                "users[main].user.exec",
                "interactiveMode is missing",
                "IfAvailable",
            ),
            (
                {
                    "users": user(
                        exec={
                            "apiVersion": "client.authentication.k8s.io/v1beta1",
                            "command": "x",
                            "interactiveMode": "Often",
                        }
                    )
                },
                "users[main].user.exec",
                "'Often' is unknown",
                "IfAvailable",
            ),
        ],
    )
    def test_invalid_kubeconfig_entries_are_named(
        self, tmp_path: Path, parts: dict[str, Any], field: str, message: str, remedy: str
    ) -> None:
        path = write(tmp_path / "c", config(**parts))
        with pytest.raises(ConfigError) as caught:
            load(path).context(environ=QUIET)
        assert caught.value.place == str(path) or field in ("as", "Impersonate-User")
        assert caught.value.field == field
        assert message in caught.value.message
        assert remedy in caught.value.remedy
        assert "secret" not in str(caught.value)

    async def test_missing_file_of_a_kubeconfig_is_named(self, tmp_path: Path) -> None:
        document = config(clusters=cluster(**{"certificate-authority": "ca.crt"}))
        connection = connect(tmp_path / "c", document)
        with pytest.raises(ConfigError) as caught:
            connection.context(await connection.credentials.proof())
        assert str(caught.value) == (
            f"{tmp_path}/c: clusters[main].cluster.certificate-authority: {tmp_path}/ca.crt "
            "cannot be read (No such file or directory); check the path and who may read the file"
        )


def test_kubeconfig_repr_has_no_secrets(tmp_path: Path) -> None:
    document = config(
        clusters=cluster(**{"proxy-url": "http://me:secret@proxy"}),
        users=user(token="secret-token", password="secret"),
    )
    merged = load(write(tmp_path / "c", document))
    connection = merged.context(environ=QUIET)
    assert "secret" not in repr(merged)
    assert "secret" not in repr(connection)
