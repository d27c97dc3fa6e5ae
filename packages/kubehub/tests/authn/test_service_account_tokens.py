"""Service account tokens: claims, validity, and every kind of invalid token."""

import base64
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from fake_objects import FakeObjects

from kubehub import status
from kubehub.authn import jwt, service_account_tokens
from kubehub.authn.jwt import Claims, Key, Rejected
from kubehub.authn.service_account_tokens import Issuer
from kubehub.pki.certificates import CertificateFault
from kubehub.resource import Document

START = 1_800_000_000


class Clock:
    def __init__(self) -> None:
        self.now = float(START)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def kept() -> FakeObjects:
    kept = FakeObjects()
    kept.put("serviceaccounts", {"metadata": {"name": "sa", "namespace": "ns", "uid": "sa-uid"}})
    return kept


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def issuer(kept: FakeObjects, clock: Clock) -> Issuer:
    return Issuer(key=Key.open(None), objects=kept, clock=clock)


def asked(issuer: Issuer, **spec: Any) -> Document:
    return issuer.request({"spec": spec}, namespace="ns", name="sa")


def token_of(issuer: Issuer, **spec: Any) -> str:
    return str(asked(issuer, **spec)["status"]["token"])


def part(token: str, index: int) -> dict[str, Any]:
    text = token.split(".")[index]
    return dict(json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


class TestRequest:
    def test_token_request_returns_token_and_expiry(self, issuer: Issuer) -> None:
        answer = asked(issuer, audiences=["a", "b"], expirationSeconds=600)
        token = answer["status"].pop("token")
        assert answer == {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": "sa",
                "namespace": "ns",
                "uid": "sa-uid",
                "creationTimestamp": "2027-01-15T08:00:00Z",
            },
            "spec": {"audiences": ["a", "b"], "expirationSeconds": 600, "boundObjectRef": None},
            "status": {"expirationTimestamp": "2027-01-15T08:10:00Z"},
        }
        assert set(part(token, 0)) == {"alg", "kid"}
        claims = part(token, 1)
        assert claims.pop("jti")
        assert claims == {
            "aud": ["a", "b"],
            "exp": START + 600,
            "iat": START,
            "nbf": START,
            "iss": "https://kubernetes.default.svc.cluster.local",
            "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "sa", "uid": "sa-uid"}},
            "sub": "system:serviceaccount:ns:sa",
        }

    def test_token_request_defaults_to_an_hour_and_the_hub_audience(self, issuer: Issuer) -> None:
        claims = part(token_of(issuer), 1)
        assert claims["exp"] - claims["iat"] == 3600
        assert claims["aud"] == [issuer.url]

    def test_requested_tokens_are_unique(self, issuer: Issuer) -> None:
        assert token_of(issuer) != token_of(issuer)

    @pytest.mark.parametrize(
        ("seconds", "detail"),
        [
            (599, service_account_tokens.SHORT),
            (0, service_account_tokens.SHORT),
            (-1, service_account_tokens.SHORT),
            (2**32 + 1, service_account_tokens.LONG),
        ],
    )
    def test_token_request_with_invalid_duration_is_rejected(
        self, issuer: Issuer, seconds: int, detail: str
    ) -> None:
        with pytest.raises(status.Refusal) as caught:
            asked(issuer, expirationSeconds=seconds)
        assert caught.value.code == 422
        assert caught.value.message == (
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: '
            f"Invalid value: {seconds}: {detail}"
        )

    @pytest.mark.parametrize("key", ["name", "namespace"])
    def test_token_request_for_another_account_is_rejected(self, issuer: Issuer, key: str) -> None:
        with pytest.raises(
            status.Refusal, match=f"must match the service account {key} if specified"
        ) as caught:
            issuer.request({"metadata": {key: "x"}}, namespace="ns", name="sa")
        assert caught.value.code == 422

    def test_token_request_for_a_missing_account_is_rejected(self, issuer: Issuer) -> None:
        with pytest.raises(status.Refusal, match='serviceaccounts "other" not found'):
            issuer.request({}, namespace="ns", name="other")

    def test_token_request_with_the_uid_of_a_replaced_account_is_rejected(self, issuer: Issuer) -> None:
        with pytest.raises(status.Refusal) as caught:
            issuer.request({"metadata": {"uid": "x"}}, namespace="ns", name="sa")
        assert caught.value.code == 409
        assert caught.value.message == (
            'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "sa": '
            "the UID in the token request (x) does not match the UID of the service account (sa-uid)"
        )


class TestBinding:
    def bound(self, issuer: Issuer, kind: str, name: str, **more: str) -> str:
        return token_of(issuer, boundObjectRef={"kind": kind, "apiVersion": "v1", "name": name, **more})

    def test_token_bound_to_a_pod_names_its_node(self, issuer: Issuer, kept: FakeObjects) -> None:
        kept.put(
            "pods",
            {
                "metadata": {"name": "p", "namespace": "ns", "uid": "p-uid"},
                "spec": {"serviceAccountName": "sa", "nodeName": "n"},
            },
        )
        without = part(self.bound(issuer, "Pod", "p"), 1)["kubernetes.io"]
        assert without["pod"] == {"name": "p", "uid": "p-uid"}
        assert without["node"] == {"name": "n"}
        kept.put("nodes", {"metadata": {"name": "n", "uid": "n-uid"}})
        token = self.bound(issuer, "Pod", "p")
        verified = issuer.authenticate(token)
        assert verified is not None
        extra = dict(verified.user.extra)
        assert extra.pop("authentication.kubernetes.io/credential-id")[0].startswith("JTI=")
        assert extra == {
            "authentication.kubernetes.io/pod-name": ("p",),
            "authentication.kubernetes.io/pod-uid": ("p-uid",),
            "authentication.kubernetes.io/node-name": ("n",),
            "authentication.kubernetes.io/node-uid": ("n-uid",),
        }

    def test_token_bound_to_a_pod_outlives_its_node(self, issuer: Issuer, kept: FakeObjects) -> None:
        kept.put("nodes", {"metadata": {"name": "n", "uid": "n-uid"}})
        kept.put(
            "pods",
            {
                "metadata": {"name": "p", "namespace": "ns"},
                "spec": {"serviceAccountName": "sa", "nodeName": "n"},
            },
        )
        token = self.bound(issuer, "Pod", "p")
        kept.delete("nodes", "n")
        assert issuer.authenticate(token) is not None

    @pytest.mark.parametrize(
        ("kind", "resource", "namespace"),
        [("Pod", "pods", "ns"), ("Secret", "secrets", "ns"), ("Node", "nodes", "")],
    )
    def test_bound_token_is_rejected_after_its_object_is_deleted(
        self, issuer: Issuer, kept: FakeObjects, kind: str, resource: str, namespace: str
    ) -> None:
        meta = {"name": "x"} | ({"namespace": namespace} if namespace else {})
        kept.put(resource, {"metadata": dict(meta), "spec": {"serviceAccountName": "sa"}})
        token = self.bound(issuer, kind, "x")
        assert issuer.authenticate(token) is not None
        kept.delete(resource, "x", namespace)
        with pytest.raises(Rejected, match=service_account_tokens.INVALIDATED):
            issuer.authenticate(token)
        kept.put(resource, {"metadata": dict(meta), "spec": {"serviceAccountName": "sa"}})
        with pytest.raises(Rejected, match=r"UID .* does not match"):
            issuer.authenticate(token)

    def test_invalid_token_bindings_are_rejected(self, issuer: Issuer, kept: FakeObjects) -> None:
        kept.put(
            "pods", {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"serviceAccountName": "else"}}
        )
        kept.put("secrets", {"metadata": {"name": "s", "namespace": "ns"}})
        for kind, name, more, code, told in (
            ("Pod", "none", {}, 404, 'pods "none" not found'),
            ("ConfigMap", "c", {}, 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
            (
                "Pod",
                "p",
                {"apiVersion": "apps/v1"},
                400,
                "cannot bind token to object of type apps/v1, Kind=Pod",
            ),
            (
                "Pod",
                "p",
                {},
                400,
                'cannot bind token for serviceaccount "sa" to pod running with different serviceaccount name.',
            ),
            (
                "Secret",
                "s",
                {"uid": "zzz"},
                409,
                'Operation cannot be fulfilled on Secret "s": the UID in the bound object reference (zzz) '
                "does not match the UID in record. The object might have been deleted and then recreated",
            ),
        ):
            with pytest.raises(status.Refusal) as caught:
                self.bound(issuer, kind, name, **more)
            assert (caught.value.code, caught.value.message) == (code, told)


class TestJudging:
    def test_service_account_token_gives_user_groups_and_extra(self, issuer: Issuer) -> None:
        verified = issuer.authenticate(token_of(issuer))
        assert verified is not None
        assert verified.user.name == "system:serviceaccount:ns:sa"
        assert verified.user.uid == "sa-uid"
        assert verified.user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns")
        assert verified.audiences == (issuer.url,)

    @pytest.mark.parametrize(
        "token",
        ["", "x", "a.b", "a.b.c", "...", "a.b.c.d", "é.é.é", "e30.e30.e30", "x" * 20_000, "\udcff.a.b"],
    )
    def test_token_of_another_format_is_ignored(self, issuer: Issuer, token: str) -> None:
        assert issuer.authenticate(token) is None

    def test_token_of_another_issuer_is_ignored(
        self, issuer: Issuer, kept: FakeObjects, clock: Clock
    ) -> None:
        other = Issuer(key=Key.open(None), objects=kept, url="https://elsewhere", clock=clock)
        assert issuer.authenticate(token_of(other)) is None

    def test_token_of_another_key_is_rejected(self, issuer: Issuer, kept: FakeObjects, clock: Clock) -> None:
        other = Issuer(key=Key.open(None), objects=kept, clock=clock)
        with pytest.raises(Rejected, match=jwt.NO_KEY):
            issuer.authenticate(token_of(other))

    def test_token_of_another_key_with_the_same_key_id_is_rejected(
        self, issuer: Issuer, kept: FakeObjects, clock: Clock
    ) -> None:
        other = token_of(Issuer(key=Key.open(None), objects=kept, clock=clock)).split(".")
        mine = token_of(issuer).split(".")
        for header in (mine[0], encoded({"alg": "ES256"})):
            with pytest.raises(Rejected, match=jwt.BAD_SIGNATURE):
                issuer.authenticate(".".join([header, *other[1:]]))

    def test_token_signed_with_the_public_key_as_hmac_secret_is_rejected(self, issuer: Issuer) -> None:
        """Algorithm confusion: an HMAC with the public key as its secret."""
        header, payload = encoded({"alg": "HS256"}), token_of(issuer).split(".")[1]
        known = json.dumps(issuer.jwks()).encode()
        mac = hmac.digest(known, f"{header}.{payload}".encode(), "sha256")
        with pytest.raises(Rejected, match=jwt.BAD_SIGNATURE):
            issuer.authenticate(f"{header}.{payload}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}")

    @pytest.mark.parametrize(
        "header",
        [{"alg": "none"}, {"alg": "ES384"}, {"alg": "ES256", "crit": ["exp"]}, {"alg": "ES256", "kid": "x"}],
    )
    def test_token_with_another_header_is_rejected_even_when_signed_by_the_key(
        self, kept: FakeObjects, tmp_path: Path, header: dict[str, Any]
    ) -> None:
        issuer = Issuer(key=Key.open(tmp_path), objects=kept, clock=Clock())
        private = serialization.load_pem_private_key((tmp_path / jwt.KEY_FILE).read_bytes(), password=None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        payload = token_of(issuer).split(".")[1]

        def resigned(header: dict[str, Any]) -> str:
            text = f"{encoded(header)}.{payload}"
            r, s = decode_dss_signature(private.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
            raw = r.to_bytes(32, "big") + s.to_bytes(32, "big")
            return f"{text}.{base64.urlsafe_b64encode(raw).rstrip(b'=').decode()}"

        assert issuer.authenticate(resigned({"alg": "ES256"})) is not None
        with pytest.raises(Rejected):
            issuer.authenticate(resigned(header))

    def test_token_with_changed_claims_is_rejected(self, issuer: Issuer) -> None:
        header, payload, signature = token_of(issuer).split(".")
        claims = part(f"x.{payload}.x", 1)
        for change in (
            {"sub": "system:serviceaccount:kube-system:admin"},
            {"exp": START * 2},
            {"aud": ["x"]},
        ):
            with pytest.raises(Rejected, match=jwt.BAD_SIGNATURE):
                issuer.authenticate(f"{header}.{encoded(claims | change)}.{signature}")

    @pytest.mark.parametrize("signature", ["A" * 86, "A" * 85, "A" * 87, "_" * 86, "A"])
    def test_token_without_a_valid_signature_is_rejected(self, issuer: Issuer, signature: str) -> None:
        header, payload, _ = token_of(issuer).split(".")
        with pytest.raises(Rejected, match=jwt.BAD_SIGNATURE):
            issuer.authenticate(f"{header}.{payload}.{signature}")

    def test_token_audience_must_match(self, issuer: Issuer) -> None:
        token = token_of(issuer, audiences=["vault", "other"])
        with pytest.raises(Rejected) as caught:
            issuer.authenticate(token)
        assert str(caught.value) == (
            'token audiences ["vault" "other"] is invalid for the target audiences '
            '["https://kubernetes.default.svc.cluster.local"]'
        )
        verified = issuer.authenticate(token, audiences=["x", "vault"])
        assert verified is not None
        assert verified.audiences == ("vault",)
        with pytest.raises(Rejected, match="is invalid for the target audiences"):
            issuer.authenticate(token)

    def test_token_is_valid_until_it_expires(self, issuer: Issuer, clock: Clock) -> None:
        token = token_of(issuer, expirationSeconds=600)
        clock.now = START + 599.9
        assert issuer.authenticate(token) is not None
        clock.now = START + 600
        for _ in range(2):
            with pytest.raises(Rejected, match=service_account_tokens.EXPIRED):
                issuer.authenticate(token)

    def test_token_tolerates_a_small_clock_difference(self, issuer: Issuer, clock: Clock) -> None:
        token = token_of(issuer)
        clock.now = START - 59
        assert issuer.authenticate(token) is not None
        clock.now = START - 61
        with pytest.raises(Rejected, match=service_account_tokens.TOO_EARLY):
            issuer.authenticate(token)

    def test_bound_token_without_expiry_is_rejected(self, issuer: Issuer, kept: FakeObjects) -> None:
        key = Key.open(None)
        issuer = Issuer(key=key, objects=kept, clock=Clock())
        claims = Claims(iss=issuer.url, sub="system:serviceaccount:ns:sa")
        with pytest.raises(Rejected):
            issuer.authenticate(key.sign(claims))

    def test_token_is_rejected_after_its_account_is_deleted(self, issuer: Issuer, kept: FakeObjects) -> None:
        token = token_of(issuer)
        assert issuer.authenticate(token) is not None
        kept.delete("serviceaccounts", "sa", "ns")
        with pytest.raises(Rejected, match='serviceaccounts "sa" not found'):
            issuer.authenticate(token)

    def test_token_of_a_replaced_account_is_rejected(self, issuer: Issuer, kept: FakeObjects) -> None:
        token = token_of(issuer)
        kept.delete("serviceaccounts", "sa", "ns")
        kept.put("serviceaccounts", {"metadata": {"name": "sa", "namespace": "ns", "uid": "new"}})
        with pytest.raises(Rejected) as caught:
            issuer.authenticate(token)
        assert str(caught.value) == "service account UID (new) does not match claim (sa-uid)"

    def test_token_of_an_account_without_uid_is_rejected(self, kept: FakeObjects) -> None:
        kept.put("serviceaccounts", {"metadata": {"name": "odd", "namespace": "ns", "uid": ""}})
        issuer = Issuer(key=Key.open(None), objects=kept, clock=Clock())
        token = issuer.request({}, namespace="ns", name="odd")["status"]["token"]
        with pytest.raises(Rejected, match="does not match claim"):
            issuer.authenticate(token)

    def test_token_of_a_terminating_account_is_valid_for_a_grace_period(
        self, issuer: Issuer, kept: FakeObjects, clock: Clock
    ) -> None:
        token = token_of(issuer)
        meta = {"name": "sa", "namespace": "ns", "uid": "sa-uid", "deletionTimestamp": "2027-01-15T08:00:00Z"}
        kept.put("serviceaccounts", {"metadata": meta})
        clock.now = START + 30
        assert issuer.authenticate(token) is not None
        clock.now = START + 90
        with pytest.raises(Rejected, match="service account ns/sa has been deleted"):
            issuer.authenticate(token)


class TestMemory:
    def test_cached_token_reads_no_objects(self, issuer: Issuer, kept: FakeObjects) -> None:
        token = token_of(issuer)
        issuer.authenticate(token)
        kept.reads.clear()
        assert issuer.authenticate(token) is not None
        assert kept.reads == []

    def test_verified_token_stays_cached_on_unrelated_changes(
        self, issuer: Issuer, kept: FakeObjects
    ) -> None:
        token = token_of(issuer)
        issuer.authenticate(token)
        kept.put("pods", {"metadata": {"name": "p", "namespace": "ns"}})
        kept.reads.clear()
        issuer.authenticate(token)
        assert kept.reads == []
        kept.put("serviceaccounts", {"metadata": {"name": "other", "namespace": "ns"}})
        assert issuer.authenticate(token) is not None
        assert kept.reads == [("serviceaccounts", "ns", "sa")]

    def test_verified_token_cache_is_bounded(self, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(service_account_tokens, "_CACHE_SIZE", 3)
        for _ in range(10):
            issuer.authenticate(token_of(issuer))
        assert len(issuer._remembered) <= 3

    def test_token_cache_contains_no_token(self, issuer: Issuer) -> None:
        token = token_of(issuer)
        issuer.authenticate(token)
        assert token not in repr(issuer._remembered)
        assert token.split(".")[2] not in repr(issuer._remembered)


class TestSecrets:
    @pytest.fixture
    def token(self, issuer: Issuer, kept: FakeObjects) -> str:
        account = kept.document("serviceaccounts", "ns", "sa")
        assert account is not None
        secret: Document = {"metadata": {"name": "sa-token", "namespace": "ns"}}
        token = issuer.secret_token(account=account, secret=secret)
        secret["data"] = {"token": base64.b64encode(token.encode()).decode()}
        kept.put("secrets", secret)
        return token

    def test_secret_token_has_no_expiry(self, issuer: Issuer, token: str, clock: Clock) -> None:
        clock.now += 10 * 365 * 86400
        verified = issuer.authenticate(token)
        assert verified is not None
        assert verified.user.name == "system:serviceaccount:ns:sa"
        assert verified.user.extra == {}
        assert verified.audiences == issuer.audiences

    def test_secret_token_has_legacy_claims(self, token: str) -> None:
        assert part(token, 1) == {
            "iss": "kubernetes/serviceaccount",
            "kubernetes.io/serviceaccount/namespace": "ns",
            "kubernetes.io/serviceaccount/secret.name": "sa-token",
            "kubernetes.io/serviceaccount/service-account.name": "sa",
            "kubernetes.io/serviceaccount/service-account.uid": "sa-uid",
            "sub": "system:serviceaccount:ns:sa",
        }

    def test_secret_token_is_valid_only_for_the_hub_audience(self, issuer: Issuer, token: str) -> None:
        with pytest.raises(Rejected, match="is invalid for the target audiences"):
            issuer.authenticate(token, audiences=["vault"])

    def test_secret_token_is_rejected_after_its_secret_is_deleted(
        self, issuer: Issuer, kept: FakeObjects, token: str
    ) -> None:
        assert issuer.authenticate(token) is not None
        kept.delete("secrets", "sa-token", "ns")
        with pytest.raises(Rejected, match=service_account_tokens.LEGACY_INVALIDATED):
            issuer.authenticate(token)

    @pytest.mark.parametrize("data", [{}, {"token": ""}, {"token": "bm9wZQ=="}, {"token": "not base64"}])
    def test_secret_token_is_rejected_when_the_secret_has_another_token(
        self, issuer: Issuer, kept: FakeObjects, token: str, data: dict[str, str]
    ) -> None:
        kept.put("secrets", {"metadata": {"name": "sa-token", "namespace": "ns"}, "data": data})
        with pytest.raises(Rejected, match=service_account_tokens.LEGACY_REPLACED):
            issuer.authenticate(token)

    def test_secret_token_is_rejected_after_its_account_is_deleted(
        self, issuer: Issuer, kept: FakeObjects, token: str
    ) -> None:
        kept.delete("serviceaccounts", "sa", "ns")
        with pytest.raises(Rejected, match="not found"):
            issuer.authenticate(token)
        kept.put("serviceaccounts", {"metadata": {"name": "sa", "namespace": "ns", "uid": "new"}})
        with pytest.raises(Rejected, match="does not match claim"):
            issuer.authenticate(token)

    def test_secret_token_marked_invalid_is_rejected(
        self, issuer: Issuer, kept: FakeObjects, token: str
    ) -> None:
        secret = kept.document("secrets", "ns", "sa-token")
        assert secret is not None
        labels = {"kubernetes.io/legacy-token-invalid-since": "2026-11-01"}
        kept.put("secrets", secret | {"metadata": secret["metadata"] | {"labels": labels}})
        with pytest.raises(Rejected, match="has been marked invalid"):
            issuer.authenticate(token)

    def test_secret_token_with_another_subject_is_rejected(self, kept: FakeObjects) -> None:
        key = Key.open(None)
        issuer = Issuer(key=key, objects=kept, clock=Clock())
        claims = Claims(
            iss=service_account_tokens.LEGACY_ISSUER,
            sub="system:serviceaccount:kube-system:admin",
            legacy_namespace="ns",
            legacy_name="sa",
            legacy_uid="sa-uid",
            legacy_secret="sa-token",
        )
        with pytest.raises(Rejected, match="sub claim is invalid"):
            issuer.authenticate(key.sign(claims))


class TestKey:
    def test_token_key_is_stored_and_reopened(self, tmp_path: Path) -> None:
        first, second = Key.open(tmp_path / "data"), Key.open(tmp_path / "data")
        assert first.id == second.id
        assert (tmp_path / "data" / jwt.KEY_FILE).stat().st_mode & 0o777 == 0o600

    def test_token_key_repr_contains_no_key_material(self) -> None:
        assert "PrivateKey" not in repr(Key.open(None))

    @pytest.mark.parametrize("which", ["rsa", "p384", "nonsense"])
    def test_token_key_of_another_kind_is_rejected(self, tmp_path: Path, which: str) -> None:
        if which == "nonsense":
            data = b"SECRET"
        else:
            key = (
                rsa.generate_private_key(65537, 2048)
                if which == "rsa"
                else ec.generate_private_key(ec.SECP384R1())
            )
            data = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        (tmp_path / jwt.KEY_FILE).write_bytes(data)
        with pytest.raises(CertificateFault, match=jwt.KEY_FILE) as caught:
            Key.open(tmp_path)
        assert "SECRET" not in str(caught.value)

    def test_token_verifies_with_the_published_key(self, issuer: Issuer) -> None:
        (published,) = issuer.jwks()["keys"]
        assert set(published) == {"use", "kty", "kid", "crv", "alg", "x", "y"}
        token = token_of(issuer)
        assert part(token, 0) == {"alg": published["alg"], "kid": published["kid"]}
        x, y = (int.from_bytes(base64.urlsafe_b64decode(published[coordinate] + "=")) for coordinate in "xy")
        header, payload, signature = token.split(".")
        raw = base64.urlsafe_b64decode(signature + "==")
        pair = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
        public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
        public.verify(pair, f"{header}.{payload}".encode(), ec.ECDSA(hashes.SHA256()))

    def test_token_key_is_published_as_jwks(self, issuer: Issuer) -> None:
        assert issuer.discovery(address="127.0.0.1:6443") == {
            "issuer": "https://kubernetes.default.svc.cluster.local",
            "jwks_uri": "https://127.0.0.1:6443/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
