"""The hub's certificates: made once, renewed in time, kept to their owner, and what a handshake makes of them."""

import os
import socket
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairway.hub.access import certs
from fairway.hub.access.certs import Authority, CertificateFault, Certificates, Identity

NOW = datetime.now(UTC)
FILES = (certs.AUTHORITY_FILE, certs.SERVING_FILE, certs.ADMIN_FILE)


def client(
    authority: Authority,
    *,
    name: str = "alice",
    groups: tuple[str, ...] = (),
    start: datetime = NOW - timedelta(hours=1),
    end: datetime = NOW + timedelta(hours=1),
    purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups]
    certificate = authority.issue(
        subject=x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)]),
        public_key=key.public_key(),
        key_usage=None,
        purposes=[purpose],
        start=start,
        end=end,
    )
    return Identity(certificate, key)


def der(identity: Identity) -> bytes:
    return identity.certificate.public_bytes(serialization.Encoding.DER)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestKeeping:
    def test_second_start_finds_what_the_first_made(self, tmp_path: Path) -> None:
        first, second = Certificates.open(tmp_path), Certificates.open(tmp_path)
        assert first.authority.certificate == second.authority.certificate
        assert first.serving.pem() == second.serving.pem()
        assert first.admin.pem() == second.admin.pem()

    def test_nobody_else_can_read_a_key(self, tmp_path: Path) -> None:
        Certificates.open(tmp_path / "data")
        assert mode(tmp_path / "data") == 0o700
        assert {mode(tmp_path / "data" / name) for name in FILES} == {0o600}

    def test_a_key_left_open_is_closed(self, tmp_path: Path) -> None:
        Certificates.open(tmp_path)
        (tmp_path / certs.AUTHORITY_FILE).chmod(0o644)
        Certificates.open(tmp_path)
        assert mode(tmp_path / certs.AUTHORITY_FILE) == 0o600

    def test_no_other_file_is_left(self, tmp_path: Path) -> None:
        Certificates.open(tmp_path)
        assert {each.name for each in tmp_path.iterdir()} == {*FILES, certs.AUTHORITY_CERTIFICATE_FILE}

    def test_the_public_file_holds_no_key(self, tmp_path: Path) -> None:
        kept = Certificates.open(tmp_path)
        text = (tmp_path / certs.AUTHORITY_CERTIFICATE_FILE).read_bytes()
        assert x509.load_pem_x509_certificate(text) == kept.authority.certificate
        assert b"PRIVATE" not in text

    def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "x"
        certs.write_private(path, b"old")

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            certs.write_private(path, b"new")
        assert path.read_bytes() == b"old"
        assert [each.name for each in tmp_path.iterdir()] == ["x"]

    @pytest.mark.parametrize("name", FILES)
    def test_a_broken_file_is_named_and_its_content_is_not(self, tmp_path: Path, name: str) -> None:
        Certificates.open(tmp_path)
        (tmp_path / name).write_text("-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n")
        with pytest.raises(CertificateFault, match=name) as caught:
            Certificates.open(tmp_path)
        assert "SECRET" not in str(caught.value)

    def test_a_certificate_of_another_key_is_refused(self, tmp_path: Path) -> None:
        kept, other = Certificates.open(tmp_path), Certificates.open(None)
        (tmp_path / certs.ADMIN_FILE).write_bytes(kept.admin.key_pem() + other.admin.certificate_pem())
        with pytest.raises(CertificateFault, match="don't belong together"):
            Certificates.open(tmp_path)

    def test_keys_show_nowhere(self) -> None:
        made = Certificates.open(None)
        assert "PRIVATE" not in repr(made)
        assert "PrivateKey" not in repr(made)


class TestRenewal:
    def test_renewed_before_the_end_by_the_same_authority(self, tmp_path: Path) -> None:
        first = Certificates.open(tmp_path, now=NOW)
        same = Certificates.open(tmp_path, now=NOW + timedelta(days=300))
        later = Certificates.open(tmp_path, now=NOW + timedelta(days=340))
        assert same.serving.certificate == first.serving.certificate
        assert later.serving.certificate != first.serving.certificate
        assert later.admin.certificate != first.admin.certificate
        assert later.authority.certificate == first.authority.certificate
        assert later.serving.certificate.not_valid_after_utc > NOW + timedelta(days=700)

    def test_nothing_outlives_its_authority(self, tmp_path: Path) -> None:
        Certificates.open(tmp_path, now=NOW)
        late = NOW + timedelta(days=3645)
        last = Certificates.open(tmp_path, now=late)
        assert last.serving.certificate.not_valid_after_utc == last.authority.certificate.not_valid_after_utc
        again = Certificates.open(tmp_path, now=late)
        assert again.serving.certificate == last.serving.certificate

    def test_an_ended_authority_is_replaced_with_all_it_issued(self, tmp_path: Path) -> None:
        first = Certificates.open(tmp_path, now=NOW)
        after = Certificates.open(tmp_path, now=NOW + timedelta(days=3651))
        assert after.authority.certificate != first.authority.certificate
        after.serving.certificate.verify_directly_issued_by(after.authority.certificate)
        after.admin.certificate.verify_directly_issued_by(after.authority.certificate)

    def test_a_lost_authority_takes_its_certificates_with_it(self, tmp_path: Path) -> None:
        Certificates.open(tmp_path)
        (tmp_path / certs.AUTHORITY_FILE).unlink()
        after = Certificates.open(tmp_path)
        after.serving.certificate.verify_directly_issued_by(after.authority.certificate)
        after.admin.certificate.verify_directly_issued_by(after.authority.certificate)

    def test_a_new_name_needs_a_new_certificate_and_a_known_one_does_not(self, tmp_path: Path) -> None:
        first = Certificates.open(tmp_path, names=["hub.example"])
        assert Certificates.open(tmp_path).serving.certificate == first.serving.certificate
        second = Certificates.open(tmp_path, names=["hub.example", "10.1.2.3"])
        assert second.serving.certificate != first.serving.certificate


class TestContent:
    def test_served_names(self) -> None:
        made = Certificates.open(None, names=["hub.example", "10.1.2.3", "fe80::1"])
        found = made.serving.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        domains = set(found.get_values_for_type(x509.DNSName))
        addresses = {str(each) for each in found.get_values_for_type(x509.IPAddress)}
        assert domains >= {
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "hub.example",
        }
        assert addresses >= {"127.0.0.1", "::1", "10.1.2.3", "fe80::1"}

    def test_a_host_name_that_no_certificate_can_have_is_left_out(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(socket, "gethostname", lambda: "bücher")
        made = Certificates.open(None)
        found = made.serving.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert "bücher" not in found.get_values_for_type(x509.DNSName)

    def test_admin_is_of_the_masters(self) -> None:
        admin = Certificates.open(None).admin.certificate
        assert certs.texts(admin, NameOID.COMMON_NAME) == ("kubernetes-admin",)
        assert certs.texts(admin, NameOID.ORGANIZATION_NAME) == ("system:masters",)

    def test_the_authority_cannot_make_authorities(self) -> None:
        made = Certificates.open(None)
        limit = made.authority.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        assert limit.ca
        assert limit.path_length == 0
        for each in (made.serving, made.admin):
            assert not each.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca

    def test_kubeconfig(self, tmp_path: Path) -> None:
        made = Certificates.open(None)
        path = tmp_path / "new" / "config"
        made.write_kubeconfig(path, server="https://127.0.0.1:6443")
        assert mode(path) == 0o600
        written = yaml.safe_load(path.read_text())
        assert written == made.kubeconfig(server="https://127.0.0.1:6443")
        assert written["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
        assert written["current-context"] == written["contexts"][0]["name"]


class TestVerify:
    def test_own(self) -> None:
        authority = Certificates.open(None).authority
        assert authority.verify(der(client(authority)), now=NOW)

    @pytest.mark.parametrize(
        ("life", "why"),
        [
            ((NOW - timedelta(hours=2), NOW - timedelta(hours=1)), "expired"),
            ((NOW + timedelta(hours=1), NOW + timedelta(hours=2)), "not valid yet"),
        ],
    )
    def test_not_its_time(self, life: tuple[datetime, datetime], why: str) -> None:
        authority = Certificates.open(None).authority
        with pytest.raises(CertificateFault, match=why):
            authority.verify(der(client(authority, start=life[0], end=life[1])), now=NOW)

    def test_foreign_even_with_the_same_name(self) -> None:
        ours, theirs = Authority.create(now=NOW), Authority.create(now=NOW)
        assert ours.certificate.subject == theirs.certificate.subject
        with pytest.raises(CertificateFault, match="not issued by the hub"):
            ours.verify(der(client(theirs, name="kubernetes-admin", groups=("system:masters",))), now=NOW)

    def test_not_for_clients(self) -> None:
        made = Certificates.open(None)
        with pytest.raises(CertificateFault, match="not for client"):
            made.authority.verify(der(made.serving), now=NOW)

    @pytest.mark.parametrize("data", [b"", b"nonsense", b"\x30\x00"])
    def test_no_certificate_at_all(self, data: bytes) -> None:
        with pytest.raises(CertificateFault):
            Certificates.open(None).authority.verify(data, now=NOW)


def shake(server: ssl.SSLContext, to: ssl.SSLContext) -> bytes | None:
    """A handshake without a network: the certificate the server saw. Raises what the client sees."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = to.wrap_bio(to_client, to_server, server_hostname="localhost")
    waiting = [theirs, ours]
    while waiting:
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                if end is theirs:
                    raise
                theirs.read()  # the server's alert
                raise AssertionError("the client saw nothing of it") from None
    return ours.getpeercert(binary_form=True)


def caller(trusted: Certificates, identity: Identity | None, tmp_path: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=trusted.authority.identity.certificate_pem().decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if identity is not None:
        path = tmp_path / "client.pem"
        certs.write_private(path, identity.pem())
        context.load_cert_chain(path)
    return context


class TestHandshake:
    def test_without_a_certificate(self, tmp_path: Path) -> None:
        made = Certificates.open(None)
        assert shake(made.ssl_context(), caller(made, None, tmp_path)) is None

    def test_with_one_of_ours(self, tmp_path: Path) -> None:
        made = Certificates.open(tmp_path / "data")
        assert shake(made.ssl_context(), caller(made, made.admin, tmp_path)) == der(made.admin)

    def test_expired_gets_through_to_be_answered(self, tmp_path: Path) -> None:
        made = Certificates.open(None)
        late = client(made.authority, start=NOW - timedelta(days=2), end=NOW - timedelta(days=1))
        assert shake(made.ssl_context(), caller(made, late, tmp_path)) == der(late)

    def test_foreign_ends_the_connection(self, tmp_path: Path) -> None:
        made, other = Certificates.open(None), Certificates.open(None)
        with pytest.raises(ssl.SSLError, match=r"(?i)unknown ca"):
            shake(made.ssl_context(), caller(made, other.admin, tmp_path))

    def test_old_protocols_are_refused(self, tmp_path: Path) -> None:
        made = Certificates.open(None)
        assert made.ssl_context().minimum_version == ssl.TLSVersion.TLSv1_2

    def test_the_server_is_trusted_only_through_its_authority(self, tmp_path: Path) -> None:
        made, other = Certificates.open(None), Certificates.open(None)
        with pytest.raises(ssl.SSLCertVerificationError):
            shake(made.ssl_context(), caller(other, None, tmp_path))

    def test_no_key_is_left_in_a_temporary_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        Certificates.open(None).ssl_context()
        assert list(tmp_path.iterdir()) == []
