"""The hub's certificates: creation, renewal, file modes and TLS handshakes."""

import os
import socket
import ssl
import stat
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubehub.pki import certificates, hub_certificates
from kubehub.pki.certificates import Authority, CertificateFault, Identity
from kubehub.pki.hub_certificates import Certificates

NOW = datetime.now(UTC)
BROKEN = "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n"
FILES = (hub_certificates.AUTHORITY_FILE, hub_certificates.SERVING_FILE, hub_certificates.ADMIN_FILE)


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
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
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


def shown_by(context: ssl.SSLContext) -> x509.Certificate:
    """Return the certificate that a new client sees."""
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    shown = client.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestKeeping:
    def test_second_start_reads_the_keys_of_the_first(self, tmp_path: Path) -> None:
        first, second = Certificates.open(tmp_path), Certificates.open(tmp_path)
        assert first.authority.certificate == second.authority.certificate
        assert first.serving.pem() == second.serving.pem()
        assert first.admin.pem() == second.admin.pem()

    def test_key_files_are_readable_by_their_owner_only(self, tmp_path: Path) -> None:
        Certificates.open(tmp_path / "data")
        assert mode(tmp_path / "data") == 0o700
        assert {mode(tmp_path / "data" / name) for name in FILES} == {0o600}

    def test_permissions_of_a_readable_key_file_are_restricted(self, tmp_path: Path) -> None:
        Certificates.open(tmp_path)
        (tmp_path / hub_certificates.AUTHORITY_FILE).chmod(0o644)
        Certificates.open(tmp_path)
        assert mode(tmp_path / hub_certificates.AUTHORITY_FILE) == 0o600

    def test_writing_a_key_leaves_no_temporary_file(self, tmp_path: Path) -> None:
        Certificates.open(tmp_path)
        assert {file.name for file in tmp_path.iterdir()} == {
            *FILES,
            hub_certificates.AUTHORITY_CERTIFICATE_FILE,
        }

    def test_public_certificate_file_contains_no_key(self, tmp_path: Path) -> None:
        kept = Certificates.open(tmp_path)
        text = (tmp_path / hub_certificates.AUTHORITY_CERTIFICATE_FILE).read_bytes()
        assert x509.load_pem_x509_certificate(text) == kept.authority.certificate
        assert b"PRIVATE" not in text

    def test_failed_key_write_keeps_the_old_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "x"
        certificates.write_private(path, b"old")

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            certificates.write_private(path, b"new")
        assert path.read_bytes() == b"old"
        assert [file.name for file in tmp_path.iterdir()] == ["x"]

    def test_broken_authority_is_named_and_its_content_is_not(self, tmp_path: Path) -> None:
        Certificates.open(tmp_path)
        (tmp_path / hub_certificates.AUTHORITY_FILE).write_text(BROKEN)
        with pytest.raises(CertificateFault, match=hub_certificates.AUTHORITY_FILE) as caught:
            Certificates.open(tmp_path)
        assert "SECRET" not in str(caught.value)

    def test_authority_with_a_certificate_of_another_key_is_refused(self, tmp_path: Path) -> None:
        kept, other = (
            Certificates.open(tmp_path).authority.identity,
            Certificates.open(None).authority.identity,
        )
        (tmp_path / hub_certificates.AUTHORITY_FILE).write_bytes(kept.key_pem() + other.certificate_pem())
        with pytest.raises(CertificateFault, match=hub_certificates.MISMATCHED):
            Certificates.open(tmp_path)

    @pytest.mark.parametrize("name", [hub_certificates.SERVING_FILE, hub_certificates.ADMIN_FILE])
    def test_broken_certificate_is_reissued(self, tmp_path: Path, name: str) -> None:
        Certificates.open(tmp_path)
        (tmp_path / name).write_text(BROKEN)
        opened = Certificates.open(tmp_path)
        for identity in (opened.serving, opened.admin):
            identity.certificate.verify_directly_issued_by(opened.authority.certificate)
        assert "SECRET" not in (tmp_path / name).read_text()

    def test_identity_repr_contains_no_key_material(self) -> None:
        made = Certificates.open(None)
        assert "PRIVATE" not in repr(made)
        assert "PrivateKey" not in repr(made)


class TestRenewal:
    def test_certificate_is_renewed_before_expiry_by_the_same_authority(self, tmp_path: Path) -> None:
        first = Certificates.open(tmp_path, now=NOW)
        same = Certificates.open(tmp_path, now=NOW + timedelta(days=300))
        later = Certificates.open(tmp_path, now=NOW + timedelta(days=340))
        assert same.serving.certificate == first.serving.certificate
        assert later.serving.certificate != first.serving.certificate
        assert later.admin.certificate != first.admin.certificate
        assert later.authority.certificate == first.authority.certificate
        assert later.serving.certificate.not_valid_after_utc > NOW + timedelta(days=700)

    @pytest.mark.parametrize("days", [3000, 3645, 3651, 40_000])
    def test_authority_is_renewed_with_the_same_key_before_and_after_its_end(
        self, tmp_path: Path, days: int
    ) -> None:
        first, now = Certificates.open(tmp_path, now=NOW), NOW + timedelta(days=days)
        after = Certificates.open(tmp_path, now=now, expected=True, trusted=first.fingerprint)
        assert after.authority.certificate.not_valid_after_utc > now + timedelta(days=3000)
        # Certificates issued before, and clients that trust the old certificate, stay valid as long as it lasts.
        first.admin.certificate.verify_directly_issued_by(after.authority.certificate)
        after.serving.certificate.verify_directly_issued_by(first.authority.certificate)
        assert after.serving.certificate.not_valid_after_utc > now + timedelta(days=300)

    @pytest.mark.parametrize("expected", [True, False])
    def test_lost_authority_is_replaced_only_where_nothing_depends_on_it(
        self, tmp_path: Path, expected: bool
    ) -> None:
        Certificates.open(tmp_path / "pki")
        (tmp_path / "pki" / hub_certificates.AUTHORITY_FILE).unlink()
        if expected:
            with pytest.raises(CertificateFault, match="is missing") as refused:
                Certificates.open(tmp_path / "pki", expected=True)
            assert f"fairway hub renew-pki --data {tmp_path}`" in str(refused.value)
            return
        after = Certificates.open(tmp_path / "pki")
        after.serving.certificate.verify_directly_issued_by(after.authority.certificate)
        after.admin.certificate.verify_directly_issued_by(after.authority.certificate)

    def test_authority_of_another_hub_is_refused(self, tmp_path: Path) -> None:
        other = Certificates.open(None).authority.identity.pem()
        trusted = Certificates.open(tmp_path).fingerprint
        (tmp_path / hub_certificates.AUTHORITY_FILE).write_bytes(other)
        for known in (trusted, None):  # by the stored fingerprint, or by the public certificate
            with pytest.raises(CertificateFault, match="doesn't belong to the data"):
                Certificates.open(tmp_path, expected=True, trusted=known)

    @pytest.mark.parametrize("days", [-400, 336, 366, 4000])
    def test_running_server_shows_renewed_certificates_wherever_the_clock_jumps(self, days: int) -> None:
        opened = Certificates.open(None, now=NOW)
        context, before = opened.ssl_context(), (opened.serving, opened.admin)
        assert not opened.renew(now=NOW + timedelta(days=300))
        now = NOW + timedelta(days=days)
        assert opened.renew(now=now)
        assert shown_by(context) == opened.serving.certificate
        for old, new in zip(before, (opened.serving, opened.admin), strict=True):
            assert old.certificate != new.certificate
            assert new.certificate.not_valid_before_utc <= now < new.certificate.not_valid_after_utc
        assert not opened.renew(now=now)
        # Back again, as after a wrong clock was corrected.
        opened.renew(now=NOW)
        for identity in (opened.authority.identity, opened.serving, opened.admin):
            assert identity.certificate.not_valid_before_utc <= NOW < identity.certificate.not_valid_after_utc

    def test_renewed_certificates_serve_from_memory_where_nothing_can_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = Certificates.open(tmp_path, now=NOW)

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(hub_certificates, "write_private", full)
        context = opened.ssl_context()
        assert opened.renew(now=NOW + timedelta(days=366))
        assert shown_by(context) == opened.serving.certificate

    def test_serving_certificate_is_reissued_only_for_new_names(self, tmp_path: Path) -> None:
        first = Certificates.open(tmp_path, names=["hub.example"])
        assert Certificates.open(tmp_path).serving.certificate == first.serving.certificate
        second = Certificates.open(tmp_path, names=["hub.example", "10.1.2.3"])
        assert second.serving.certificate != first.serving.certificate


class TestContent:
    def test_serving_certificate_has_all_names(self) -> None:
        made = Certificates.open(None, names=["hub.example", "10.1.2.3", "fe80::1"])
        names = made.serving.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        domains = set(names.get_values_for_type(x509.DNSName))
        addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
        assert domains >= {
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "hub.example",
        }
        assert addresses >= {"127.0.0.1", "::1", "10.1.2.3", "fe80::1"}

    def test_invalid_host_name_is_omitted_from_the_certificate(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(socket, "gethostname", lambda: "bücher")
        made = Certificates.open(None)
        names = made.serving.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert "bücher" not in names.get_values_for_type(x509.DNSName)

    def test_administrator_is_in_system_masters(self) -> None:
        admin = Certificates.open(None).admin.certificate
        assert certificates.texts(admin, NameOID.COMMON_NAME) == ("kubernetes-admin",)
        assert certificates.texts(admin, NameOID.ORGANIZATION_NAME) == ("system:masters",)

    def test_authority_certificate_cannot_issue_authorities(self) -> None:
        made = Certificates.open(None)
        limit = made.authority.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        assert limit.ca
        assert limit.path_length == 0
        for identity in (made.serving, made.admin):
            assert not identity.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca

    def test_kubeconfig_authenticates_the_administrator(self, tmp_path: Path) -> None:
        made = Certificates.open(None)
        path = tmp_path / "new" / "config"
        made.write_kubeconfig(path, server="https://127.0.0.1:6443")
        assert mode(path) == 0o600
        written = yaml.safe_load(path.read_text())
        assert written == made.kubeconfig(server="https://127.0.0.1:6443")
        assert written["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
        assert written["current-context"] == written["contexts"][0]["name"]


class TestVerify:
    def test_issued_certificate_is_verified(self) -> None:
        authority = Certificates.open(None).authority
        assert authority.verify(der(client(authority)), now=NOW)

    @pytest.mark.parametrize(
        ("life", "why"),
        [
            ((NOW - timedelta(hours=2), NOW - timedelta(hours=1)), "expired"),
            ((NOW + timedelta(hours=1), NOW + timedelta(hours=2)), "not valid yet"),
        ],
    )
    def test_expired_or_future_certificate_is_rejected(
        self, life: tuple[datetime, datetime], why: str
    ) -> None:
        authority = Certificates.open(None).authority
        with pytest.raises(CertificateFault, match=why):
            authority.verify(der(client(authority, start=life[0], end=life[1])), now=NOW)

    def test_certificate_of_an_authority_of_the_same_name_is_rejected(self) -> None:
        ours, theirs = Authority.create(now=NOW), Authority.create(now=NOW)
        assert ours.certificate.subject == theirs.certificate.subject
        with pytest.raises(CertificateFault, match="not issued by the hub"):
            ours.verify(der(client(theirs, name="kubernetes-admin", groups=("system:masters",))), now=NOW)

    def test_certificate_without_client_usage_is_rejected(self) -> None:
        made = Certificates.open(None)
        with pytest.raises(CertificateFault, match="not for client"):
            made.authority.verify(der(made.serving), now=NOW)

    @pytest.mark.parametrize("data", [b"", b"nonsense", b"\x30\x00"])
    def test_garbage_is_rejected_as_certificate(self, data: bytes) -> None:
        with pytest.raises(CertificateFault):
            Certificates.open(None).authority.verify(data, now=NOW)


def shake(server: ssl.SSLContext, to: ssl.SSLContext) -> bytes | None:
    """Handshake without a network. Returns the certificate that the server saw, raises what the client sees."""
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
        certificates.write_private(path, identity.pem())
        context.load_cert_chain(path)
    return context


class TestHandshake:
    def test_handshake_without_client_certificate_succeeds(self, tmp_path: Path) -> None:
        made = Certificates.open(None)
        assert shake(made.ssl_context(), caller(made, None, tmp_path)) is None

    def test_handshake_with_own_client_certificate_succeeds(self, tmp_path: Path) -> None:
        made = Certificates.open(tmp_path / "data")
        assert shake(made.ssl_context(), caller(made, made.admin, tmp_path)) == der(made.admin)

    def test_handshake_with_expired_own_certificate_succeeds(self, tmp_path: Path) -> None:
        made = Certificates.open(None)
        late = client(made.authority, start=NOW - timedelta(days=2), end=NOW - timedelta(days=1))
        assert shake(made.ssl_context(), caller(made, late, tmp_path)) == der(late)

    def test_handshake_with_foreign_certificate_fails(self, tmp_path: Path) -> None:
        made, other = Certificates.open(None), Certificates.open(None)
        with pytest.raises(ssl.SSLError, match=r"(?i)unknown ca"):
            shake(made.ssl_context(), caller(made, other.admin, tmp_path))

    def test_handshake_with_old_protocol_fails(self, tmp_path: Path) -> None:
        made = Certificates.open(None)
        assert made.ssl_context().minimum_version == ssl.TLSVersion.TLSv1_2

    def test_server_is_trusted_only_through_its_authority(self, tmp_path: Path) -> None:
        made, other = Certificates.open(None), Certificates.open(None)
        with pytest.raises(ssl.SSLCertVerificationError):
            shake(made.ssl_context(), caller(other, None, tmp_path))

    def test_loading_keys_leaves_no_temporary_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        Certificates.open(None).ssl_context()
        assert list(tmp_path.iterdir()) == []
