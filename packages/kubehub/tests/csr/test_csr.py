"""Certificate signing requests: validation, approval, signing."""

import base64
import copy
import ipaddress
import warnings
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from fake_objects import FakeObjects, rule, user

from kubehub import status
from kubehub.csr import signing, validation
from kubehub.pki import certificates
from kubehub.pki.certificates import Authority
from kubehub.rbac.authorizer import Authorizer
from kubehub.resource import Document
from kubehub.user import User
from kubewire.api.csr import pem_blocks

NOW = datetime(2026, 11, 15, 13, tzinfo=UTC)
ALICE = User(name="alice", uid="1", groups=("devs", "system:authenticated"), extra={"k": ("v",)})
KEY = ec.generate_private_key(ec.SECP256R1())
CLIENT = signing.CLIENT
Name = tuple[x509.ObjectIdentifier, str]


def pem(*names: Name, key: Any = KEY, alternatives: list[x509.GeneralName] | None = None) -> bytes:
    with warnings.catch_warnings(action="ignore"):  # names beyond X.520's limit are in use
        subject = x509.Name([x509.NameAttribute(oid, value, _validate=False) for oid, value in names])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(serialization.Encoding.PEM)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def request(name: str = "carol", *groups: str, **more: Any) -> str:
    organizations = [(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return encoded(pem(*organizations, (NameOID.COMMON_NAME, name), **more))


def csr(asked: str = "", **spec: Any) -> Document:
    usages = {"signerName": CLIENT, "usages": ["client auth"]}
    return {"metadata": {"name": "csr"}, "spec": {"request": asked or request(), **usages, **spec}}


def messages(causes: list[status.Cause]) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in causes]


def created(document: Document) -> Document:
    document = copy.deepcopy(document)
    validation.prepare(document, None, user=ALICE, now=NOW)
    return document


def changed(old: Document, subresource: str, **state: Any) -> Document:
    new = copy.deepcopy(old) | {"status": state}
    validation.prepare(new, old, user=ALICE, now=NOW, subresource=subresource)
    return new


def condition(kind: str, value: str = "True", **more: str) -> Document:
    return {"type": kind, "status": value, **more}


def approved(document: Document) -> Document:
    old = created(document)
    assert validation.check(old, None) == []
    new = changed(old, "approval", conditions=[condition("Approved")])
    assert validation.check(new, old, subresource="approval") == []
    return new


class TestAsking:
    def test_csr_requester_is_set_by_the_hub(self) -> None:
        asked = csr(username="root", groups=["system:masters"], uid="0", extra={"x": ["y"]})
        asked["status"] = {"conditions": [condition("Approved")], "certificate": "eHg="}
        made = created(asked)
        assert {key: made["spec"][key] for key in ("username", "uid", "groups", "extra")} == {
            "username": "alice",
            "uid": "1",
            "groups": ["devs", "system:authenticated"],
            "extra": {"k": ["v"]},
        }
        assert made["status"] == {}
        assert validation.check(made, None) == []

    def test_csr_requester_without_uid_has_no_uid_field(self) -> None:
        asked = csr(uid="0", groups=["system:masters"], extra={"x": ["y"]})
        validation.prepare(asked, None, user=User(name="bob"), now=NOW)
        assert set(asked["spec"]) == {"request", "signerName", "usages", "username"}

    @pytest.mark.parametrize(
        ("data", "fault"),
        [
            (b"", signing.NOT_PEM),
            (b"hello", signing.NOT_PEM),
            (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", signing.NOT_PEM),
            (b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n", signing.NOT_PEM),
            (
                b"-----BEGIN CERTIFICATE REQUEST-----\n!!!!\n-----END CERTIFICATE REQUEST-----\n",
                signing.NOT_PEM,
            ),
            (
                b"-----BEGIN CERTIFICATE REQUEST-----\naGVsbG8=\n-----END CERTIFICATE REQUEST-----\n",
                signing.UNREADABLE,
            ),
            (b"-----BEGIN " * 100_000, signing.NOT_PEM),
        ],
    )
    def test_invalid_pem_request_is_rejected(self, data: bytes, fault: str) -> None:
        value = encoded(data)
        made = created(csr() | {"spec": csr()["spec"] | {"request": value}})
        assert messages(validation.check(made, None)) == [f'spec.request: Invalid value: "{value}": {fault}']

    @pytest.mark.parametrize(
        ("key", "fault"),
        [
            (KEY, "x509: ECDSA verification failure"),
            (rsa.generate_private_key(65537, 2048), "crypto/rsa: verification error"),
        ],
    )
    def test_csr_with_an_invalid_signature_is_rejected(self, key: Any, fault: str) -> None:
        body = next(pem_blocks(pem((NameOID.COMMON_NAME, "x"), key=key)))[1]
        forged = body[:-1] + bytes([body[-1] ^ 1])
        text = (
            b"-----BEGIN CERTIFICATE REQUEST-----\n%s-----END CERTIFICATE REQUEST-----\n"
            % base64.encodebytes(forged)
        )
        assert messages(validation.check(created(csr(encoded(text))), None))[0].endswith(fault)

    def test_csr_with_invalid_usages_is_rejected(self) -> None:
        texts = messages(validation.check(created(csr(usages=["client auth", "client auth", "foo"])), None))
        assert texts[0].startswith(
            'spec.usages[2]: Unsupported value: "foo": supported values: "any", "cert sign", '
        )
        assert texts[0].endswith('"server auth", "signing", "timestamping"')
        assert texts[1:] == ['spec.usages[1]: Duplicate value: "client auth"']
        assert messages(validation.check(created(csr(usages=[])), None)) == ["spec.usages: Required value"]

    @pytest.mark.parametrize(
        ("name", "fault"),
        [
            ("", "Required value"),
            ("foo", f'Invalid value: "foo": {validation.SIGNER_FORM}'),
            ("a.b/c/d", f'Invalid value: "a.b/c/d": {validation.SIGNER_FORM}'),
            ("a/b", f'Invalid value: "a": {validation.SIGNER_DOMAIN}'),
            (
                "a_.b/c",
                'Invalid value: "a_.b": validating label "a_": a lowercase RFC 1123 label must consist of',
            ),
            (
                "a.b/C",
                'Invalid value: "C": validating label "C": a lowercase RFC 1123 subdomain must consist of',
            ),
            (
                "a.b/",
                'Invalid value: "": validating label "": a lowercase RFC 1123 subdomain must consist of',
            ),
            (validation.LEGACY, f'Invalid value: "{validation.LEGACY}": {validation.LEGACY_REFUSED}'),
        ],
    )
    def test_csr_with_invalid_signer_name_is_rejected(self, name: str, fault: str) -> None:
        (text,) = messages(validation.check(created(csr(signerName=name)), None))
        assert text.startswith(f"spec.signerName: {fault}")

    def test_csr_with_short_expiration_is_rejected(self) -> None:
        assert messages(validation.check(created(csr(expirationSeconds=599)), None)) == [
            f"spec.expirationSeconds: Invalid value: 599: {validation.SHORT}"
        ]
        assert validation.check(created(csr(expirationSeconds=600)), None) == []


class TestAdmission:
    @pytest.fixture
    def kept(self) -> FakeObjects:
        return FakeObjects()

    @pytest.fixture
    def authorizer(self, kept: FakeObjects) -> Authorizer:
        return Authorizer(kept)

    def admit(
        self, authorizer: Authorizer, new: Document, old: Document | None = None, subresource: str = ""
    ) -> None:
        validation.admit(new, old, user=ALICE, authorizer=authorizer, subresource=subresource)

    @pytest.mark.parametrize(
        "groups", [("system:masters",), ("devs", "system:masters"), ("system:masters", "devs")]
    )
    def test_csr_for_system_masters_is_forbidden(
        self, authorizer: Authorizer, groups: tuple[str, ...]
    ) -> None:
        with pytest.raises(status.Refusal) as caught:
            self.admit(authorizer, created(csr(request("carol", *groups))))
        assert caught.value.code == 403
        assert caught.value.message == (
            'certificatesigningrequests.certificates.k8s.io "csr" is forbidden: use of '
            "kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
        )

    def test_csr_for_other_groups_and_signers_is_allowed(self, authorizer: Authorizer) -> None:
        self.admit(authorizer, created(csr(request("carol", "devs", "system:masters2"))))
        self.admit(authorizer, created(csr(request("carol", "system:masters"), signerName="example.com/x")))

    def test_unreadable_csr_is_forbidden(self, authorizer: Authorizer) -> None:
        with pytest.raises(status.Refusal, match="failed to parse CSR"):
            self.admit(authorizer, created(csr("aGVsbG8=")))

    @pytest.mark.parametrize(
        ("verb", "subresource", "state"),
        [
            ("approve", "approval", {"conditions": [condition("Approved")]}),
            ("sign", "status", {"certificate": "eHg="}),
            ("sign", "status", {"conditions": [condition("Failed")]}),
        ],
    )
    def test_approval_and_signing_need_permission_for_the_signer(
        self, kept: FakeObjects, authorizer: Authorizer, verb: str, subresource: str, state: Document
    ) -> None:
        old = created(csr())
        new = changed(old, subresource, **state)
        with pytest.raises(status.Refusal) as caught:
            self.admit(authorizer, new, old, subresource)
        assert caught.value.message == (
            f'certificatesigningrequests.certificates.k8s.io "csr" is forbidden: user not permitted to {verb} requests '
            'with signerName "kubernetes.io/kube-apiserver-client"'
        )
        for names, may in (
            ("kubernetes.io/kubelet-serving", False),
            ("example.com/*", False),
            ("*", False),
            ("kubernetes.io/*", True),
            (CLIENT, True),
            ("", True),
        ):
            kept.cluster_role("may", rule(verb, validation.GROUP, "signers", names))
            kept.bind("may", user("alice"))
            if may:
                self.admit(authorizer, new, old, subresource)
            else:
                with pytest.raises(status.Refusal):
                    self.admit(authorizer, new, old, subresource)

    def test_csr_permission_is_checked_for_the_stored_signer(
        self, kept: FakeObjects, authorizer: Authorizer
    ) -> None:
        kept.cluster_role("may", rule("approve", validation.GROUP, "signers", "example.com/x"))
        kept.bind("may", user("alice"))
        old = created(csr())
        new = copy.deepcopy(old)
        new["spec"]["signerName"] = "example.com/x"
        with pytest.raises(status.Refusal):
            self.admit(authorizer, new, old, "approval")

    def test_unchanged_csr_status_write_needs_no_permission(self, authorizer: Authorizer) -> None:
        old = created(csr())
        self.admit(authorizer, copy.deepcopy(old), old, "status")


class TestChanging:
    def test_csr_spec_is_immutable(self) -> None:
        old = created(csr())
        evil = csr(request("root", "system:masters"), signerName="x", usages=["any"], username="root")
        for subresource in ("", "approval", "status"):
            new = copy.deepcopy(evil)
            validation.prepare(new, old, user=User(name="bob"), now=NOW, subresource=subresource)
            assert new["spec"] == old["spec"]

    def test_csr_update_keeps_the_status(self) -> None:
        old = created(csr())
        new = changed(old, "", conditions=[condition("Approved")], certificate="eHg=")
        assert new["status"] == {}

    def test_approval_update_changes_only_conditions(self) -> None:
        old = created(csr())
        new = changed(old, "approval", conditions=[condition("Approved", reason="r")], certificate="eHg=")
        stamp = "2026-11-15T13:00:00Z"
        times = {"lastUpdateTime": stamp, "lastTransitionTime": stamp}
        assert new["status"] == {"conditions": [condition("Approved", reason="r") | times]}
        assert validation.check(new, old, subresource="approval") == []

    def test_approval_cannot_be_withdrawn(self) -> None:
        old = approved(csr())
        new = changed(old, "approval", conditions=[])
        assert messages(validation.check(new, old, subresource="approval")) == [
            'status.conditions: Forbidden: updates may not remove a condition of type "Approved"'
        ]

    def test_csr_cannot_be_approved_and_denied(self) -> None:
        old = approved(csr())
        new = changed(old, "approval", conditions=[*old["status"]["conditions"], condition("Denied")])
        assert messages(validation.check(new, old, subresource="approval")) == [
            'status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive'
        ]

    def test_invalid_csr_conditions_are_rejected(self) -> None:
        old = created(csr())
        odd = [
            {"type": "Approved"},
            condition("", "Foo"),
            condition("X", "Foo"),
            condition("X"),
            condition("Failed", "False"),
        ]
        texts = messages(
            validation.check(changed(old, "approval", conditions=odd), old, subresource="approval")
        )
        assert texts == [
            "status.conditions[0].status: Required value",
            "status.conditions[1].type: Required value",
            'status.conditions[1].status: Unsupported value: "Foo": supported values: "False", "True", "Unknown"',
            'status.conditions[2].status: Unsupported value: "Foo": supported values: "False", "True", "Unknown"',
            'status.conditions[3].type: Duplicate value: "X"',
            'status.conditions[4].status: Unsupported value: "False": supported values: "True"',
        ]

    def test_status_update_cannot_approve_a_csr(self) -> None:
        old = created(csr())
        new = changed(old, "status", conditions=[condition("Approved")])
        assert messages(validation.check(new, old, subresource="status")) == [
            'status.conditions: Forbidden: updates may not add a condition of type "Approved"'
        ]

    def test_status_update_keeps_the_stored_decision(self) -> None:
        old = approved(csr())
        new = changed(old, "status", conditions=[condition("Approved", reason="forged")])
        assert new["status"]["conditions"] == old["status"]["conditions"]
        assert validation.check(new, old, subresource="status") == []

    def test_csr_condition_keeps_its_transition_time(self) -> None:
        old = created(csr()) | {
            "status": {"conditions": [condition("X", lastTransitionTime="2020-01-01T00:00:00Z")]}
        }
        new = changed(old, "status", conditions=[condition("X"), condition("Y")])
        times = [entry["lastTransitionTime"] for entry in new["status"]["conditions"]]
        assert times == ["2020-01-01T00:00:00Z", "2026-11-15T13:00:00Z"]

    @pytest.mark.parametrize(
        ("data", "fault"),
        [
            (b"xx", validation.NO_BLOCK),
            (pem((NameOID.COMMON_NAME, "x")), validation.OTHER_BLOCK.format(kind='"CERTIFICATE REQUEST"')),
            (
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "x509: malformed certificate",
            ),
        ],
    )
    def test_status_update_with_invalid_certificate_is_rejected(self, data: bytes, fault: str) -> None:
        old = approved(csr())
        new = changed(old, "status", certificate=encoded(data), conditions=old["status"]["conditions"])
        assert messages(validation.check(new, old, subresource="status")) == [
            f'status.certificate: Invalid value: "<certificate data>": {fault}'
        ]

    def test_certificate_is_written_once_and_by_status_only(self) -> None:
        one, two = (encoded(Authority.create(now=NOW).identity.certificate_pem()) for _ in range(2))
        old = approved(csr())
        signed = changed(old, "status", certificate=one, conditions=old["status"]["conditions"])
        assert validation.check(signed, old, subresource="status") == []
        again = changed(signed, "status", certificate=two, conditions=old["status"]["conditions"])
        assert messages(validation.check(again, signed, subresource="status")) == [
            f"status.certificate: Forbidden: {validation.SIGNED_ONCE}"
        ]
        smuggled = old | {"status": old["status"] | {"certificate": one}}
        assert messages(validation.check(smuggled, old, subresource="approval")) == [
            f"status.certificate: Forbidden: {validation.NO_CERTIFICATE}"
        ]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create(now=NOW)


def sign(document: Document, authority: Authority) -> x509.Certificate:
    before = copy.deepcopy(document)
    answer = signing.sign(document, authority=authority, now=NOW)
    assert document == before
    assert answer is not None
    assert "certificate" in answer["status"], answer["status"]
    assert validation.check(answer, document, subresource="status") == []
    return x509.load_pem_x509_certificate(base64.b64decode(answer["status"]["certificate"]))


def failure(document: Document, authority: Authority) -> str:
    answer = signing.sign(document, authority=authority, now=NOW)
    assert answer is not None
    assert "certificate" not in answer["status"]
    failed = answer["status"]["conditions"][-1]
    assert (failed["type"], failed["status"], failed["reason"]) == (
        "Failed",
        "True",
        "SignerValidationFailure",
    )
    assert signing.sign(answer, authority=authority, now=NOW) is None
    return str(failed["message"])


class TestSigning:
    def test_client_certificate_is_signed_as_requested(self, authority: Authority) -> None:
        made = sign(approved(csr(request("carol", "devs", "ops"))), authority)
        der = made.public_bytes(serialization.Encoding.DER)
        assert authority.verify(der, now=NOW) == made
        assert certificates.texts(made, NameOID.COMMON_NAME) == ("carol",)
        assert certificates.texts(made, NameOID.ORGANIZATION_NAME) == ("devs", "ops")
        assert made.public_key() == KEY.public_key()
        purposes = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca

    def test_long_common_names_are_signed(self, authority: Authority) -> None:
        name = f"system:open-cluster-management:{'c' * 63}:{'a' * 36}"
        made = sign(approved(csr(request(name, "system:open-cluster-management:cluster1"))), authority)
        assert certificates.texts(made, NameOID.COMMON_NAME) == (name,)

    @pytest.mark.parametrize(
        "key", [rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()]
    )
    def test_csr_with_any_key_type_is_signed(self, authority: Authority, key: Any) -> None:
        made = sign(approved(csr(request("carol", key=key))), authority)
        assert made.public_key() == key.public_key()

    @pytest.mark.parametrize(
        ("seconds", "life"),
        [
            (None, timedelta(days=365)),
            (600, timedelta(minutes=15)),
            (3600, timedelta(minutes=65)),
            (86400, timedelta(days=1)),
            (10 * 365 * 86400, timedelta(days=365)),
        ],
    )
    def test_signed_certificate_lasts_as_requested(
        self, authority: Authority, seconds: int | None, life: timedelta
    ) -> None:
        made = sign(approved(csr(expirationSeconds=seconds)), authority)
        assert made.not_valid_before_utc == NOW - timedelta(minutes=5)
        assert made.not_valid_after_utc - made.not_valid_before_utc == life

    def test_signed_certificate_ends_with_the_authority(self) -> None:
        old = Authority.create(now=NOW - timedelta(days=3600))
        made = sign(approved(csr()), old)
        assert made.not_valid_after_utc == old.certificate.not_valid_after_utc

    def test_expired_authority_signs_no_csr(self) -> None:
        assert (
            failure(approved(csr()), Authority.create(now=NOW - timedelta(days=3651)))
            == "the signer has expired"
        )

    def test_signed_certificate_has_the_requested_usages(self, authority: Authority) -> None:
        made = sign(approved(csr(usages=["client auth", "digital signature", "key encipherment"])), authority)
        flags = made.extensions.get_extension_for_class(x509.KeyUsage)
        assert flags.critical
        assert flags.value.digital_signature
        assert flags.value.key_encipherment
        assert not flags.value.key_cert_sign

    def test_subject_attributes_beyond_the_known_ones_are_not_signed(self, authority: Authority) -> None:
        """A uid, a second common name, CA rights: attributes that must not be copied from a request."""
        uid = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
        asked = pem((NameOID.COMMON_NAME, "admin"), (uid, "0"), (NameOID.COMMON_NAME, "carol"))
        made = sign(approved(csr(encoded(asked))), authority)
        assert [attribute.value for attribute in made.subject] == ["carol"]
        builder = (
            x509.CertificateSigningRequestBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "carol")]))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(KEY, hashes.SHA256())
        )
        made = sign(approved(csr(encoded(builder.public_bytes(serialization.Encoding.PEM)))), authority)
        assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca

    @pytest.mark.parametrize(
        ("usages", "fault"),
        [
            (["digital signature"], "missing required usage for client certificate: client auth"),
            (["client auth", "server auth"], "invalid usage for client certificate: server auth"),
            (["client auth", "cert sign"], "invalid usage for client certificate: cert sign"),
            (["any"], "invalid usage for client certificate: any"),
        ],
    )
    def test_client_csr_with_other_usages_is_not_signed(
        self, authority: Authority, usages: list[str], fault: str
    ) -> None:
        assert failure(approved(csr(usages=usages)), authority) == fault

    def test_signer_refuses_system_masters(self, authority: Authority) -> None:
        assert failure(approved(csr(request("carol", "system:masters"))), authority) == signing.NOT_MASTERS

    @pytest.mark.parametrize(
        "conditions",
        [
            [],
            [condition("Denied")],
            [condition("Approved"), condition("Denied")],
            [condition("Approved"), condition("Failed")],
            [condition("Approved", "False")],
        ],
    )
    def test_only_approved_csr_is_signed(self, authority: Authority, conditions: list[Document]) -> None:
        document = created(csr()) | {"status": {"conditions": conditions}}
        assert signing.sign(document, authority=authority, now=NOW) is None

    def test_signed_csr_and_csr_of_another_signer_are_skipped(self, authority: Authority) -> None:
        done = signing.sign(approved(csr()), authority=authority, now=NOW)
        assert done is not None
        assert signing.sign(done, authority=authority, now=NOW) is None
        other = approved(csr(signerName="example.com/mine"))
        assert signing.sign(other, authority=authority, now=NOW) is None


NODE = ("system:node:n1", "system:nodes")
DNS, IP = x509.DNSName("n1"), x509.IPAddress(ipaddress.ip_address("10.0.0.1"))
MAIL, URI = x509.RFC822Name("a@b"), x509.UniformResourceIdentifier("https://x")


class TestKubelets:
    def asked(
        self, name: str, groups: tuple[str, ...], alternatives: list[x509.GeneralName], **spec: Any
    ) -> Document:
        return approved(csr(request(name, *groups, alternatives=alternatives), **spec))

    def test_kubelet_client_certificate_is_signed(self, authority: Authority) -> None:
        for usages in (
            ["digital signature", "client auth"],
            ["key encipherment", "digital signature", "client auth"],
        ):
            made = sign(
                self.asked(NODE[0], NODE[1:], [], signerName=signing.KUBELET_CLIENT, usages=usages), authority
            )
            assert certificates.texts(made, NameOID.ORGANIZATION_NAME) == ("system:nodes",)

    def test_kubelet_serving_certificate_is_signed(self, authority: Authority) -> None:
        usages = ["digital signature", "key encipherment", "server auth"]
        made = sign(
            self.asked(NODE[0], NODE[1:], [DNS, IP], signerName=signing.KUBELET_SERVING, usages=usages),
            authority,
        )
        names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert list(names) == [DNS, IP]

    @pytest.mark.parametrize(
        ("which", "name", "groups", "alternatives", "usages", "fault"),
        [
            ("client", NODE[0], (), [], "", "subject organization is not system:nodes"),
            (
                "client",
                NODE[0],
                ("system:nodes", "system:masters"),
                [],
                "",
                "subject organization is not system:nodes",
            ),
            (
                "client",
                "carol",
                ("system:nodes",),
                [],
                "",
                "subject common name does not begin with system:node:",
            ),
            ("client", NODE[0], NODE[1:], [DNS], "", "DNS subjectAltNames are not allowed"),
            ("client", NODE[0], NODE[1:], [IP], "", "IP subjectAltNames are not allowed"),
            ("client", NODE[0], NODE[1:], [MAIL], "", "Email subjectAltNames are not allowed"),
            ("client", NODE[0], NODE[1:], [URI], "", "URI subjectAltNames are not allowed"),
            (
                "client",
                NODE[0],
                NODE[1:],
                [],
                "server auth",
                "usages did not match [client auth digital signature key encipherment]",
            ),
            ("serving", NODE[0], NODE[1:], [], "", "DNS or IP subjectAltName is required"),
            ("serving", NODE[0], NODE[1:], [DNS, MAIL], "", "Email subjectAltNames are not allowed"),
            ("serving", NODE[0], NODE[1:], [DNS, URI], "", "URI subjectAltNames are not allowed"),
            ("serving", "carol", NODE[1:], [DNS], "", "subject common name does not begin with system:node:"),
            (
                "serving",
                NODE[0],
                NODE[1:],
                [DNS],
                "client auth",
                "usages did not match [digital signature key encipherment server auth]",
            ),
        ],
    )
    def test_invalid_kubelet_csr_is_not_signed(
        self,
        authority: Authority,
        which: str,
        name: str,
        groups: tuple[str, ...],
        alternatives: list[x509.GeneralName],
        usages: str,
        fault: str,
    ) -> None:
        names = {"client": signing.KUBELET_CLIENT, "serving": signing.KUBELET_SERVING}
        right = {"client": "client auth", "serving": "server auth"}[which]
        document = self.asked(
            name, groups, alternatives, signerName=names[which], usages=["digital signature", usages or right]
        )
        assert failure(document, authority) == fault
