"""The hub accepts only current versions and ciphers of TLS."""

import asyncio
import ssl
import warnings

import pytest

from security.wire import Hub, request


async def handshake(hub: Hub, context: ssl.SSLContext) -> ssl.SSLObject:
    _, writer = await asyncio.open_connection(hub.host, hub.port, ssl=context, server_hostname=hub.host)
    secured: ssl.SSLObject = writer.get_extra_info("ssl_object")
    writer.transport.abort()
    return secured


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_old_tls_versions_are_rejected(hub: Hub, version: ssl.TLSVersion) -> None:
    context = hub.tls()
    with warnings.catch_warnings(action="ignore"):  # Python warns about old versions
        context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await handshake(hub, context)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_new_tls_versions_are_accepted(hub: Hub, version: ssl.TLSVersion) -> None:
    context = hub.tls()
    context.minimum_version = context.maximum_version = version
    secured = await handshake(hub, context)
    assert secured.compression() is None
    cipher = secured.cipher()
    assert cipher is not None
    assert cipher[2] >= 128


@pytest.mark.parametrize("ciphers", ["NULL:@SECLEVEL=0", "aNULL:@SECLEVEL=0"])
async def test_weak_ciphers_are_rejected(embedded: Hub, ciphers: str) -> None:
    context = embedded.tls()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError:
        pytest.skip("this machine's OpenSSL has none of them")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await handshake(embedded, context)


async def test_plain_http_gets_no_answer(embedded: Hub) -> None:
    reader, writer = await asyncio.open_connection(embedded.host, embedded.port)
    writer.write(request("GET", "/version"))
    try:
        received = await reader.read(-1)
    except ConnectionError:
        received = b""
    assert b"HTTP" not in received
    writer.close()


async def test_clients_reject_a_hub_of_another_authority(embedded: Hub) -> None:
    """The clients verify the CA and the host name."""
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(embedded, ssl.create_default_context())
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection(
            embedded.host, embedded.port, ssl=embedded.tls(), server_hostname="elsewhere.example"
        )
