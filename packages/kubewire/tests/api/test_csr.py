"""Certificate requests are read as the signer reads them."""

import base64
import warnings

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from kubewire.api.csr import InvalidRequest, agent_of, read

_KEY = ec.generate_private_key(ec.SECP256R1())


def request(
    *parts: tuple[x509.ObjectIdentifier, str], extensions: tuple[x509.ExtensionType, ...] = ()
) -> bytes:
    with warnings.catch_warnings(action="ignore"):
        subject = x509.Name([x509.NameAttribute(oid, value, _validate=False) for oid, value in parts])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(_KEY, hashes.SHA256()).public_bytes(Encoding.PEM)


USER = (NameOID.COMMON_NAME, "user")
GROUP = (NameOID.ORGANIZATION_NAME, "group")
PLAIN = request(GROUP, USER)
OTHER = request((NameOID.COMMON_NAME, "somebody-else"))
MIDDLE = b"".join(PLAIN.splitlines()[1:-1])


def test_requested_identity_is_read_from_the_csr() -> None:
    identity = read(PLAIN)
    assert (identity.user, identity.groups, identity.hosts, identity.plain) == (
        "user",
        frozenset({"group"}),
        frozenset(),
        True,
    )
    assert identity.subject == "CN=user,O=group"
    assert identity.is_for("user", groups=frozenset({"group"}))
    assert not identity.is_for("user", groups=frozenset({"group", "more"}))
    assert not identity.is_for("other", groups=frozenset({"group"}))


@pytest.mark.parametrize("form", [b"\n" + PLAIN + b"\n", PLAIN.replace(b"\n", b"\r\n"), PLAIN.strip()])
def test_whitespace_around_a_csr_is_ignored(form: bytes) -> None:
    assert read(form).user == "user"


@pytest.mark.parametrize(
    "form",
    [
        b"",
        b"nonsense",
        PLAIN + OTHER,
        b"x" + PLAIN + OTHER,
        b" " + PLAIN + OTHER,
        b"x" + PLAIN,
        PLAIN + b"x",
        PLAIN.replace(b"-----\n", b"-----\nProc-Type: 4,ENCRYPTED\n\n", 1),
        PLAIN.replace(b"CERTIFICATE REQUEST", b"NEW CERTIFICATE REQUEST"),
        PLAIN.replace(b"CERTIFICATE REQUEST", b"CERTIFICATE"),
        PLAIN.replace(b"CERTIFICATE REQUEST", b"CERTIFICATE") + OTHER,
        PLAIN.replace(MIDDLE[:8], b"AAAA\x00AAA"),
        b"-----BEGIN CERTIFICATE REQUEST-----\nMIIB\n-----END CERTIFICATE REQUEST-----\n",
        b"-----BEGIN CERTIFICATE REQUEST-----\n"
        + base64.encodebytes(base64.b64decode(MIDDLE) + b"\x00")
        + b"-----END CERTIFICATE REQUEST-----\n",
    ],
)
def test_ambiguous_csr_is_rejected(form: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read(form)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_text_around_a_csr_is_rejected(before: bytes, after: bytes) -> None:
    try:
        identity = read(before + PLAIN + after)
    except InvalidRequest:
        return
    assert identity.user == "user"
    assert not (before + after).strip()


def test_csr_with_several_users_or_other_attributes_is_not_plain() -> None:
    assert read(request(USER, (NameOID.COMMON_NAME, "admin"))).user == ""
    assert read(request(USER, USER)).user == ""
    assert read(request(GROUP)).user == ""
    for oid in (
        NameOID.USER_ID,
        NameOID.ORGANIZATIONAL_UNIT_NAME,
        x509.ObjectIdentifier("1.3.6.1.4.1.57683.2"),
    ):
        assert not read(request(USER, (oid, "x"))).plain


def test_csr_may_request_only_dns_names_besides_the_subject() -> None:
    names = x509.SubjectAlternativeName([x509.DNSName("a.example")])
    identity = read(request(USER, extensions=(names,)))
    assert identity.plain
    assert not identity.is_for("user", groups=frozenset())
    assert identity.is_for("user", groups=frozenset(), hosts=frozenset({"a.example", "b.example"}))
    mail = x509.SubjectAlternativeName([x509.RFC822Name("a@b.example")])
    authority = x509.BasicConstraints(ca=True, path_length=None)
    for extension in (mail, authority):
        assert not read(request(USER, extensions=(extension,))).plain


@pytest.mark.parametrize(
    ("user", "agent"),
    [
        ("g:a1", "a1"),
        ("g:3F2b-x.y_z0", "3F2b-x.y_z0"),
        ("g:", ""),
        ("g", ""),
        ("a1", ""),
        ("g:a:b", ""),
        ("gg:a", ""),
        ("g:a b", ""),
        ("g:a\n", ""),
        ("g:\u0430", ""),
        ("g:a\u0661", ""),
        ("g:-a", ""),
        ("g:" + "a" * 254, ""),
    ],
)
def test_agent_names_have_only_plain_characters(user: str, agent: str) -> None:
    assert agent_of(user, group="g") == agent
