"""Authentication by certificate, static token, bootstrap token and service account token."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from fake_objects import FakeObjects

from kubehub import status
from kubehub.authn import authenticator, bearer_tokens
from kubehub.authn.authenticator import Authenticator
from kubehub.authn.bearer_tokens import StaticTokens, TokenFileFault
from kubehub.authn.jwt import Key, Rejected
from kubehub.authn.service_account_tokens import Issuer
from kubehub.pki.certificates import Authority
from kubehub.resource import Document
from kubehub.user import User

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


class AuthenticatorHarness:
    def __init__(self, tmp_path: Path) -> None:
        self.kept, self.clock = FakeObjects(), Clock()
        self.authority = Authority.create(now=NOW - timedelta(days=1))
        self.issuer = Issuer(key=Key.open(None), objects=self.kept, clock=lambda: self.clock.now.timestamp())
        (tmp_path / "tokens.csv").write_text(
            'alice-token,alice,alice-uid,"devs,ops"\nbob-token,bob,bob-uid\n,nobody,x\n'
        )
        self.authenticator = Authenticator(
            authority=self.authority,
            issuer=self.issuer,
            objects=self.kept,
            static=StaticTokens.read(tmp_path / "tokens.csv"),
            clock=self.clock,
        )

    def ask(self, authorization: str = "", certificate: bytes | None = None, path: str = "/api") -> User:
        return self.authenticator.authenticate(
            authorization=authorization, certificate=certificate, path=path
        )

    def certificate(
        self,
        *names: tuple[x509.ObjectIdentifier, str],
        authority: Authority | None = None,
        end: datetime = NOW + timedelta(hours=1),
    ) -> bytes:
        issued = (authority or self.authority).issue(
            subject=x509.Name([x509.NameAttribute(oid, value) for oid, value in names]),
            public_key=ec.generate_private_key(ec.SECP256R1()).public_key(),
            key_usage=None,
            purposes=[ExtendedKeyUsageOID.CLIENT_AUTH],
            start=NOW - timedelta(hours=2),
            end=end,
        )
        return issued.public_bytes(serialization.Encoding.DER)


@pytest.fixture
def harness(tmp_path: Path) -> AuthenticatorHarness:
    return AuthenticatorHarness(tmp_path)


class TestCertificate:
    def test_certificate_subject_gives_name_and_groups(self, harness: AuthenticatorHarness) -> None:
        shown = harness.certificate(
            (NameOID.ORGANIZATION_NAME, "devs"),
            (NameOID.ORGANIZATION_NAME, "ops"),
            (NameOID.COMMON_NAME, "carol"),
        )
        user = harness.ask(certificate=shown)
        assert (user.name, user.uid, user.groups) == ("carol", "", ("devs", "ops", "system:authenticated"))
        assert list(user.extra) == ["authentication.kubernetes.io/credential-id"]
        assert user.extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
        assert harness.ask(certificate=shown) == user

    def test_certificate_subject_gives_the_uid(self, harness: AuthenticatorHarness) -> None:
        shown = harness.certificate((NameOID.COMMON_NAME, "carol"), (UID, "u-1"))
        assert harness.ask(certificate=shown).uid == "u-1"
        with pytest.raises(status.Refusal):
            harness.ask(
                certificate=harness.certificate((NameOID.COMMON_NAME, "carol"), (UID, "a"), (UID, "b"))
            )

    def test_expired_certificate_is_rejected(self, harness: AuthenticatorHarness) -> None:
        shown = harness.certificate((NameOID.COMMON_NAME, "carol"), end=NOW + timedelta(minutes=1))
        harness.ask(certificate=shown)
        harness.clock.now = NOW + timedelta(minutes=2)
        with pytest.raises(status.Refusal, match="Unauthorized") as caught:
            harness.ask(certificate=shown)
        assert caught.value.code == 401

    def test_certificate_of_another_authority_is_rejected(self, harness: AuthenticatorHarness) -> None:
        other = Authority.create(now=NOW - timedelta(days=1))
        shown = harness.certificate(
            (NameOID.ORGANIZATION_NAME, "system:masters"), (NameOID.COMMON_NAME, "root"), authority=other
        )
        with pytest.raises(status.Refusal, match="Unauthorized"):
            harness.ask(certificate=shown)

    def test_certificate_without_a_user_name_is_rejected(self, harness: AuthenticatorHarness) -> None:
        shown = harness.certificate((NameOID.ORGANIZATION_NAME, "system:masters"))
        with pytest.raises(status.Refusal, match="Unauthorized"):
            harness.ask(certificate=shown)

    def test_last_common_name_of_a_certificate_is_the_user(self, harness: AuthenticatorHarness) -> None:
        shown = harness.certificate((NameOID.COMMON_NAME, "admin"), (NameOID.COMMON_NAME, "carol"))
        assert harness.ask(certificate=shown).name == "carol"

    def test_verified_certificates_are_cached_within_a_bound(
        self, harness: AuthenticatorHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(authenticator, "_CACHE_SIZE", 2)
        for index in range(5):
            harness.ask(certificate=harness.certificate((NameOID.COMMON_NAME, f"u{index}")))
        assert len(harness.authenticator._certified) <= 2


class TestBearer:
    @pytest.mark.parametrize("header", ["Bearer alice-token", "bearer alice-token", " BEARER alice-token x "])
    def test_static_token_gives_its_user(self, harness: AuthenticatorHarness, header: str) -> None:
        user = harness.ask(header)
        assert user == User(name="alice", uid="alice-uid", groups=("devs", "ops", "system:authenticated"))

    def test_static_token_may_lack_groups(self, harness: AuthenticatorHarness) -> None:
        assert harness.ask("Bearer bob-token").groups == ("system:authenticated",)

    @pytest.mark.parametrize(
        "header", ["Bearer nope", "Bearer alice-toke", "Bearer alice-token2", "Bearer é"]
    )
    def test_unknown_token_is_rejected(self, harness: AuthenticatorHarness, header: str) -> None:
        with pytest.raises(status.Refusal, match="Unauthorized") as caught:
            harness.ask(header)
        assert caught.value.document() == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "Unauthorized",
            "reason": "Unauthorized",
            "code": 401,
        }

    @pytest.mark.parametrize(
        "header", ["", "Bearer", "Bearer ", "Bearer  alice-token", "Basic YTpi", "alice-token"]
    )
    def test_other_authorization_schemes_count_as_no_credentials(
        self, harness: AuthenticatorHarness, header: str
    ) -> None:
        with pytest.raises(status.Refusal, match="Unauthorized"):
            harness.ask(header)
        assert harness.ask(header, path="/healthz").name == "system:anonymous"

    def test_service_account_token_gives_its_user(self, harness: AuthenticatorHarness) -> None:
        harness.kept.put("serviceaccounts", {"metadata": {"name": "sa", "namespace": "ns"}})
        token = harness.issuer.request({}, namespace="ns", name="sa")["status"]["token"]
        user = harness.ask(f"Bearer {token}")
        assert user.name == "system:serviceaccount:ns:sa"
        assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
        harness.kept.delete("serviceaccounts", "sa", "ns")
        with pytest.raises(status.Refusal, match="Unauthorized"):
            harness.ask(f"Bearer {token}")

    def test_token_for_another_audience_is_rejected(self, harness: AuthenticatorHarness) -> None:
        harness.kept.put("serviceaccounts", {"metadata": {"name": "sa", "namespace": "ns"}})
        spec = {"spec": {"audiences": ["vault"]}}
        token = harness.issuer.request(spec, namespace="ns", name="sa")["status"]["token"]
        with pytest.raises(status.Refusal, match="Unauthorized"):
            harness.ask(f"Bearer {token}")
        with pytest.raises(Rejected):
            harness.authenticator.token("alice-token", audiences=["vault"])

    def test_token_counts_beside_an_invalid_certificate(self, harness: AuthenticatorHarness) -> None:
        other = Authority.create(now=NOW - timedelta(days=1))
        shown = harness.certificate((NameOID.COMMON_NAME, "root"), authority=other)
        assert harness.ask("Bearer alice-token", certificate=shown).name == "alice"

    def test_certificate_precedes_the_token(self, harness: AuthenticatorHarness) -> None:
        shown = harness.certificate((NameOID.COMMON_NAME, "carol"))
        assert harness.ask("Bearer alice-token", certificate=shown).name == "carol"

    def test_static_tokens_are_stored_as_digests(self, harness: AuthenticatorHarness) -> None:
        assert "alice-token" not in repr(vars(harness.authenticator._static))

    def test_short_line_of_the_token_file_is_reported_by_number(self, tmp_path: Path) -> None:
        (tmp_path / "t").write_text("a,b,c\n\ntop-secret,b\n")
        with pytest.raises(TokenFileFault) as caught:
            StaticTokens.read(tmp_path / "t")
        assert str(caught.value) == bearer_tokens.TOO_FEW_COLUMNS.format(record=2, found=2)


class TestNobody:
    @pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version", "/version/"])
    def test_anonymous_user_may_read_health_paths(self, harness: AuthenticatorHarness, path: str) -> None:
        user = harness.ask(path=path)
        assert (user.name, user.groups) == ("system:anonymous", ("system:unauthenticated",))

    @pytest.mark.parametrize(
        "path", ["/", "/api", "/healthz/", "/healthz/etcd", "/livez/x", "/metrics", "/apis"]
    )
    def test_anonymous_user_is_rejected_elsewhere(self, harness: AuthenticatorHarness, path: str) -> None:
        with pytest.raises(status.Refusal, match="Unauthorized"):
            harness.ask(path=path)

    def test_invalid_credentials_are_rejected_on_health_paths(self, harness: AuthenticatorHarness) -> None:
        other = Authority.create(now=NOW - timedelta(days=1))
        shown = harness.certificate((NameOID.COMMON_NAME, "root"), authority=other)
        for header, certificate in (("Bearer nope", None), ("", shown)):
            with pytest.raises(status.Refusal, match="Unauthorized"):
                harness.ask(header, certificate, path="/healthz")


class TestBootstrap:
    TOKEN = "abc123.0123456789abcdef"

    def secret(self, **changes: str) -> Document:
        data = {
            "token-id": "abc123",
            "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
        } | changes
        return {
            "metadata": {"name": "bootstrap-token-abc123", "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token",
            "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
        }

    def test_bootstrap_token_gives_its_user_and_groups(self, harness: AuthenticatorHarness) -> None:
        groups = "system:bootstrappers:managedcluster,system:bootstrappers:a"
        harness.kept.put("secrets", self.secret(**{"auth-extra-groups": groups}))
        user = harness.ask(f"Bearer {self.TOKEN}")
        assert user.name == "system:bootstrap:abc123"
        assert user.groups == (
            "system:bootstrappers",
            "system:bootstrappers:a",
            "system:bootstrappers:managedcluster",
            "system:authenticated",
        )

    def test_bootstrap_token_is_rejected_after_its_secret_is_deleted(
        self, harness: AuthenticatorHarness
    ) -> None:
        harness.kept.put("secrets", self.secret())
        harness.ask(f"Bearer {self.TOKEN}")
        harness.kept.delete("secrets", "bootstrap-token-abc123", "kube-system")
        with pytest.raises(status.Refusal, match="Unauthorized"):
            harness.ask(f"Bearer {self.TOKEN}")

    def test_expired_bootstrap_token_is_rejected(self, harness: AuthenticatorHarness) -> None:
        harness.kept.put("secrets", self.secret(expiration="2026-11-15T13:00:00+01:00"))
        harness.clock.now = NOW - timedelta(seconds=1)
        harness.ask(f"Bearer {self.TOKEN}")
        harness.clock.now = NOW
        with pytest.raises(status.Refusal, match="Unauthorized"):
            harness.ask(f"Bearer {self.TOKEN}")

    @pytest.mark.parametrize(
        "changes",
        [
            {"token-secret": "0123456789abcdeX"},
            {"token-secret": ""},
            {"token-id": "other1"},
            {"expiration": "soon"},
            {"usage-bootstrap-authentication": "false"},
            {"usage-bootstrap-authentication": ""},
            {"auth-extra-groups": "system:masters"},
            {"auth-extra-groups": "system:bootstrappers:a,system:masters"},
            {"auth-extra-groups": "system:bootstrappers:a\nsystem:masters"},
        ],
    )
    def test_bootstrap_secret_without_authentication_usage_is_ignored(
        self, harness: AuthenticatorHarness, changes: dict[str, str]
    ) -> None:
        harness.kept.put("secrets", self.secret(**changes))
        with pytest.raises(status.Refusal, match="Unauthorized"):
            harness.ask(f"Bearer {self.TOKEN}")

    def test_bootstrap_secret_of_another_type_or_namespace_is_ignored(
        self, harness: AuthenticatorHarness
    ) -> None:
        harness.kept.put("secrets", self.secret() | {"type": "Opaque"})
        with pytest.raises(status.Refusal, match="Unauthorized"):
            harness.ask(f"Bearer {self.TOKEN}")
        harness.kept.delete("secrets", "bootstrap-token-abc123", "kube-system")
        elsewhere = self.secret()
        elsewhere["metadata"]["namespace"] = "default"
        harness.kept.put("secrets", elsewhere)
        with pytest.raises(status.Refusal, match="Unauthorized"):
            harness.ask(f"Bearer {self.TOKEN}")

    def test_bootstrap_token_of_a_deleting_secret_is_rejected(self, harness: AuthenticatorHarness) -> None:
        secret = self.secret()
        secret["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:00Z"
        harness.kept.put("secrets", secret)
        with pytest.raises(status.Refusal, match="Unauthorized"):
            harness.ask(f"Bearer {self.TOKEN}")
