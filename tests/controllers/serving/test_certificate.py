"""What the debug endpoint shows in the TLS handshake, and that a renewed certificate is shown without a restart."""

import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from controllers.serving.asking import LOOPBACK, ask, connect, unverified
from fairway.controllers.serving import Address, CertificateError, CertificateFiles, http_server
from fairway.controllers.serving.certificate import (
    KEPT,
    NOT_PEM,
    PASSPHRASE,
    RENEWAL,
    RENEWED,
    FileCertificate,
    SelfSignedCertificate,
    ServingCertificate,
)
from fairway.controllers.serving.http_server import listening
from rigs.certificates import Authority
from security.wire import read_to_end


class Calendar:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def wall(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return self.now.timestamp()


async def hello(_: web.BaseRequest) -> web.Response:
    return web.Response(text="hello")


@asynccontextmanager
async def showing(shown: ServingCertificate) -> AsyncIterator[Address]:
    async with listening(LOOPBACK, hello, context=shown.context()) as address:
        yield address


async def seen(address: Address) -> x509.Certificate:
    _, writer = await connect(address, tls=unverified())
    secured = writer.get_extra_info("ssl_object")
    shown = secured.getpeercert(binary_form=True)
    writer.close()
    with suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()  # by then the other side is through with the handshake, too
    return x509.load_der_x509_certificate(shown)


def name_of(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    folder = tmp_path / "authority"
    folder.mkdir()
    return Authority.create(folder)


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    return CertificateFiles(certificate=tmp_path / "tls.crt", key=tmp_path / "tls.key")


def put(files: CertificateFiles, authority: Authority, name: str) -> None:
    pair = authority.issue(name, hosts=["localhost"])
    pair.certificate.replace(files.certificate)
    pair.key.replace(files.key)


async def test_certificate_of_files_is_served(authority: Authority, files: CertificateFiles) -> None:
    put(files, authority, "one")
    trusting = ssl.create_default_context(cafile=str(authority.pair.certificate))
    async with showing(FileCertificate(files)) as address:
        assert (await ask(address, "GET", "/", tls=trusting)).text == "hello"


async def test_renewed_certificate_is_served_at_once(
    authority: Authority, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    put(files, authority, "one")
    async with showing(FileCertificate(files)) as address:
        assert name_of(await seen(address)) == "one"
        put(files, authority, "two")
        assert name_of(await seen(address)) == "two"
        assert name_of(await seen(address)) == "two"
    assert caplog.messages.count(RENEWED) == 1


async def test_incomplete_renewal_is_not_served(
    authority: Authority, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    put(files, authority, "one")
    async with showing(FileCertificate(files)) as address:
        pair = authority.issue("two", hosts=["localhost"])
        pair.certificate.replace(files.certificate)
        assert name_of(await seen(address)) == "one"
        assert name_of(await seen(address)) == "one"
        assert [record.msg for record in caplog.records] == [KEPT]
        pair.key.replace(files.key)
        assert name_of(await seen(address)) == "two"


async def test_deleted_certificate_files_keep_the_last_certificate(
    authority: Authority, files: CertificateFiles
) -> None:
    put(files, authority, "one")
    async with showing(FileCertificate(files)) as address:
        files.key.unlink()
        assert name_of(await seen(address)) == "one"
        put(files, authority, "two")
        assert name_of(await seen(address)) == "two"


async def test_swapped_certificate_folder_is_reloaded(authority: Authority, tmp_path: Path) -> None:
    """As Kubernetes renews mounted secrets: a link to a folder is replaced."""
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        put(CertificateFiles(certificate=folder / "tls.crt", key=folder / "tls.key"), authority, name)
    link = tmp_path / "data"
    link.symlink_to(tmp_path / "one")
    async with showing(
        FileCertificate(CertificateFiles(certificate=link / "tls.crt", key=link / "tls.key"))
    ) as address:
        assert name_of(await seen(address)) == "one"
        (tmp_path / "next").symlink_to(tmp_path / "two")
        (tmp_path / "next").replace(link)
        assert name_of(await seen(address)) == "two"


def test_missing_certificate_files_are_named(files: CertificateFiles) -> None:
    with pytest.raises(
        CertificateError, match=f"{files.certificate} and {files.key} cannot be used.*No such file"
    ):
        FileCertificate(files)


def test_invalid_certificate_files_are_named(files: CertificateFiles) -> None:
    files.certificate.write_text("a secret")
    files.key.write_text("another secret")
    with pytest.raises(CertificateError, match=NOT_PEM) as caught:
        FileCertificate(files)
    assert "secret" not in str(caught.value).replace(str(files.certificate.parent), "")


def test_key_with_a_passphrase_is_refused(authority: Authority, files: CertificateFiles) -> None:
    put(files, authority, "one")
    key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"x"),
        )
    )
    with pytest.raises(CertificateError, match=PASSPHRASE):
        FileCertificate(files)


async def test_self_signed_certificate_is_created_without_files() -> None:
    async with showing(
        SelfSignedCertificate(hosts=["fairway.example.com", "192.0.2.7", "ümlaut", ""])
    ) as address:
        certificate = await seen(address)
    assert name_of(certificate) == "fairway"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "fairway.example.com"} <= set(names.get_values_for_type(x509.DNSName))
    assert {"127.0.0.1", "::1", "192.0.2.7"} <= {
        str(address) for address in names.get_values_for_type(x509.IPAddress)
    }
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


async def test_self_signed_certificate_is_renewed() -> None:
    calendar = Calendar()
    async with showing(SelfSignedCertificate(clock=calendar)) as address:
        first = await seen(address)
        assert await seen(address) == first
        calendar.now += RENEWAL + timedelta(days=1)
        second = await seen(address)
        assert second != first
        assert second.not_valid_after_utc > calendar.now + RENEWAL
        assert await seen(address) == second


async def test_self_signed_certificates_differ() -> None:
    async with showing(SelfSignedCertificate()) as one, showing(SelfSignedCertificate()) as other:
        assert await seen(one) != await seen(other)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")  # that they are old is the point
async def test_debug_endpoint_rejects_old_tls_versions() -> None:
    old = unverified()
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    async with showing(SelfSignedCertificate()) as address:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connect(address, tls=old)


async def test_unfinished_handshake_of_the_debug_endpoint_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HANDSHAKE_SECONDS", 0.2)
    async with showing(SelfSignedCertificate()) as address:
        for sent in (b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01" + b"\x00" * 20):
            reader, writer = await connect(address)
            writer.write(sent)
            await read_to_end(reader)
            writer.transport.abort()


async def test_debug_endpoint_requests_no_client_certificate() -> None:
    context = SelfSignedCertificate().context()
    assert context.verify_mode is ssl.CERT_NONE
