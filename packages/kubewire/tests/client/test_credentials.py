"""Tokens and certificates that are replaced while we run."""

import os
import ssl
from pathlib import Path

import pytest
from client.authority import Authority
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubewire.client import credentials
from kubewire.client.connection import NOT_IN_A_POD, Connection
from kubewire.client.credentials import Proof, StoredCredentials
from kubewire.client.errors import ConfigError, CredentialError
from kubewire.client.tls import Certificate, File, Pem, context_of


def replace(path: Path, content: str | bytes) -> None:
    """As Kubernetes does it: the new file is made aside and moved into place."""
    aside = path.with_name("aside")
    aside.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(aside, path)


async def test_changed_token_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    replace(path, "one\n")
    held = StoredCredentials(token_file=str(path))
    first = await held.proof()
    assert first.authorization == "Bearer one"
    assert await held.proof() is first
    assert not await held.renew(first)
    replace(path, "two")
    assert (await held.proof()).authorization == "Bearer two"
    assert await held.renew(first)


async def test_deleted_token_file_keeps_the_last_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    replace(path, "one")
    held = StoredCredentials(token_file=str(path))
    await held.proof()
    path.unlink()
    assert (await held.proof()).authorization == "Bearer one"


async def test_token_file_changed_within_its_timestamp_is_read_after_a_401(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one", encoding="ascii")
    held = StoredCredentials(token_file=str(path))
    first = await held.proof()
    before = path.stat()
    path.write_text("two", encoding="ascii")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert await held.proof() == first
    assert await held.renew(first)
    assert (await held.proof()).authorization == "Bearer two"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, credentials.NO_TOKEN_FILE.format(path="{path}", why="No such file or directory")),
        ("  \n", credentials.EMPTY_TOKEN_FILE),
        ("secret\nsecret", credentials.BAD_TOKEN),
        ("secret\u00fc", credentials.BAD_TOKEN),
    ],
)
async def test_token_file_without_token_is_an_error(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(CredentialError) as caught:
        await StoredCredentials(token_file=str(path)).proof()
    assert str(caught.value) == message.format(path=path)


async def test_changed_certificate_files_are_read_again(tmp_path: Path) -> None:
    authority = Authority()
    chain, key = authority.client("jane").write(tmp_path, "jane")
    held = StoredCredentials(chain=Pem(path=str(chain)), key=Pem(path=str(key)))
    first = await held.proof()
    assert await held.proof() is first
    other = authority.client("jane")
    replace(chain, other.chain)
    replace(key, other.key)
    assert await held.renew(first)
    second = await held.proof()
    assert second.certificate == Certificate(other.chain, other.key)
    assert context_of(certificate=second.certificate) is not context_of(certificate=first.certificate)


async def test_empty_credentials_are_anonymous() -> None:
    held = StoredCredentials()
    assert await held.proof() == Proof()
    assert not await held.renew(Proof())


def test_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    file = File(str(path))
    assert file.read() is file.read()


class TestContexts:
    def test_tls_contexts_are_cached_by_content(self) -> None:
        authority = Authority()
        pair = authority.client("jane")
        certificate = Certificate(pair.chain, pair.key)
        made = context_of(authority=authority.certificate, certificate=certificate)
        assert context_of(authority=bytes(authority.certificate), certificate=certificate) is made
        assert context_of(authority=authority.certificate) is not made

    def test_key_is_on_disk_only_while_it_is_loaded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        pair = Authority().client("jane")
        modes: list[tuple[str, int]] = []
        load = ssl.SSLContext.load_cert_chain

        def spy(self: ssl.SSLContext, chain: str, key: str, **options: object) -> None:
            modes.extend((Path(path).name, Path(path).stat().st_mode & 0o777) for path in (chain, key))
            modes.append(("folder", Path(key).parent.stat().st_mode & 0o777))
            load(self, chain, key)

        monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
        context_of(certificate=Certificate(pair.chain, pair.key))
        assert modes == [("chain.pem", 0o600), ("key.pem", 0o600), ("folder", 0o700)]
        assert list(tmp_path.iterdir()) == []

    def test_mismatched_key_and_certificate_are_rejected(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        authority = Authority()
        one, two = authority.client("one"), authority.client("two")
        for chain, key in ((one.chain, two.key), (b"no", one.key), (one.chain, b"")):
            with pytest.raises(ConfigError, match="cannot be used together"):
                context_of(certificate=Certificate(chain, key))
        assert list(tmp_path.iterdir()) == []

    def test_encrypted_key_is_rejected_without_a_prompt(self) -> None:
        locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
        with pytest.raises(ConfigError, match="protected by a passphrase"):
            context_of(certificate=Certificate(Authority().client("x").chain, locked))

    def test_invalid_ca_is_rejected(self) -> None:
        with pytest.raises(ConfigError, match="no certificate in PEM format"):
            context_of(authority=b"no certificate")


def test_credentials_repr_has_no_secrets() -> None:
    shown = [
        repr(Proof("Bearer secret", Certificate(b"secret", b"secret"))),
        repr(StoredCredentials(token="secret", chain=Pem(data=b"secret"), key=Pem(data=b"secret"))),
        repr(StoredCredentials(username="jane", password="secret")),
        repr(Pem(data=b"secret")),
    ]
    assert not any("secret" in text for text in shown)
    assert repr(StoredCredentials(token_file="/x")) == "<StoredCredentials: token file>"


class TestInCluster:
    def folder(self, tmp_path: Path) -> str:
        (tmp_path / "token").write_text("one", encoding="ascii")
        (tmp_path / "namespace").write_text("ours\n", encoding="ascii")
        (tmp_path / "ca.crt").write_bytes(Authority().certificate)
        return str(tmp_path)

    async def test_pod_uses_its_service_account(self, tmp_path: Path) -> None:
        environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        connection = Connection.in_cluster(environ=environ, folder=self.folder(tmp_path))
        assert (connection.server, connection.namespace) == ("https://10.0.0.1:443", "ours")
        proof = await connection.credentials.proof()
        assert proof.authorization == "Bearer one"
        assert connection.context(proof) is not None
        replace(tmp_path / "token", "two")
        assert (await connection.credentials.proof()).authorization == "Bearer two"

    def test_service_host_may_be_ipv6(self, tmp_path: Path) -> None:
        environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
        connection = Connection.in_cluster(environ=environ, folder=self.folder(tmp_path))
        assert connection.server == "https://[fd00::1]:443"

    def test_service_account_outside_a_pod_is_an_error(self, tmp_path: Path) -> None:
        environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        with pytest.raises(ConfigError, match=NOT_IN_A_POD):
            Connection.in_cluster(environ=environ, folder=str(tmp_path))
        with pytest.raises(ConfigError, match=NOT_IN_A_POD):
            Connection.in_cluster(environ={}, folder=self.folder(tmp_path))
