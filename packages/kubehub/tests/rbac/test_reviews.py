"""Reviews, with the answers of kube-apiserver v1.36.3 to the same requests."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from fake_objects import FakeObjects, user

from kubehub import status
from kubehub.authn.authenticator import Authenticator
from kubehub.authn.bearer_tokens import StaticTokens
from kubehub.authn.jwt import Key
from kubehub.authn.service_account_tokens import ISSUER, Issuer
from kubehub.pki.certificates import Authority
from kubehub.rbac import default_roles, reviews
from kubehub.rbac.authorizer import Authorizer
from kubehub.resource import Document
from kubehub.user import User

NOW = datetime(2026, 11, 15, 13, 4, 35, tzinfo=UTC)
ALICE = User(name="alice", uid="alice-uid", groups=("devs", "ops", "system:authenticated"))
ROOT = User(name="root", groups=("system:masters",))


@pytest.fixture
def kept() -> FakeObjects:
    kept = FakeObjects()
    for resource, document in default_roles.documents():
        kept.put(resource, document)
    kept.put("serviceaccounts", {"metadata": {"name": "sa", "namespace": "ns", "uid": "u"}})
    return kept


@pytest.fixture
def authorizer(kept: FakeObjects) -> Authorizer:
    return Authorizer(kept)


@pytest.fixture
def authenticator(kept: FakeObjects, tmp_path: Path) -> Authenticator:
    (tmp_path / "t").write_text('alice-token,alice,alice-uid,"devs,ops"\n')
    return Authenticator(
        authority=Authority.create(now=NOW),
        issuer=Issuer(key=Key.open(None), objects=kept, clock=NOW.timestamp),
        objects=kept,
        static=StaticTokens.read(tmp_path / "t"),
        clock=lambda: NOW,
    )


class TestTokenReview:
    def review(self, authenticator: Authenticator, **spec: object) -> Document:
        document = {"metadata": {"managedFields": ["kept"]}, "spec": spec}
        answer = reviews.token_review(document, authenticator=authenticator)
        assert (answer["kind"], answer["apiVersion"]) == ("TokenReview", "authentication.k8s.io/v1")
        assert answer["metadata"] == document["metadata"]
        assert answer["spec"] == spec
        assert "status" not in document
        return dict(answer["status"])

    def test_token_review_of_valid_token(self, authenticator: Authenticator) -> None:
        expected = {
            "authenticated": True,
            "user": {
                "username": "alice",
                "uid": "alice-uid",
                "groups": ["devs", "ops", "system:authenticated"],
            },
            "audiences": [ISSUER],
        }
        assert self.review(authenticator, token="alice-token") == expected
        assert self.review(authenticator, token="alice-token", audiences=["x", ISSUER]) == expected

    @pytest.mark.parametrize("spec", [{"token": "nope"}, {"token": "alice-token", "audiences": ["x"]}])
    def test_token_review_of_invalid_token(
        self, authenticator: Authenticator, spec: dict[str, object]
    ) -> None:
        assert self.review(authenticator, **spec) == {"user": {}, "error": "invalid bearer token"}

    def test_token_review_reports_why_a_signed_token_is_invalid(
        self, authenticator: Authenticator, kept: FakeObjects
    ) -> None:
        token = authenticator.issuer.request({}, namespace="ns", name="sa")["status"]["token"]
        assert self.review(authenticator, token=token, audiences=["zzz"])["error"] == (
            f'[invalid bearer token, token audiences ["{ISSUER}"] is invalid for the target audiences ["zzz"]]'
        )
        kept.delete("serviceaccounts", "sa", "ns")
        assert self.review(authenticator, token=token) == {
            "user": {},
            "error": '[invalid bearer token, serviceaccounts "sa" not found]',
        }

    def test_token_review_of_service_account_token(self, authenticator: Authenticator) -> None:
        token = authenticator.issuer.request({}, namespace="ns", name="sa")["status"]["token"]
        account = self.review(authenticator, token=token)["user"]
        assert account["username"] == "system:serviceaccount:ns:sa"
        assert account["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")

    @pytest.mark.parametrize("document", [{}, {"spec": {}}, {"spec": {"token": ""}}])
    def test_token_review_without_token_is_rejected(
        self, authenticator: Authenticator, document: Document
    ) -> None:
        with pytest.raises(status.Refusal, match=reviews.TOKEN_NEEDED) as caught:
            reviews.token_review(document, authenticator=authenticator)
        assert caught.value.code == 400


def test_self_subject_review_returns_the_user() -> None:
    who = User(name="bob", groups=("x",), extra={"foo/bar": ("y", "z")})
    assert reviews.self_subject_review(user=who, now=NOW) == {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": "2026-11-15T13:04:35Z"},
        "status": {"userInfo": {"username": "bob", "groups": ["x"], "extra": {"foo/bar": ["y", "z"]}}},
    }


PODS: Document = {"verb": "get", "resource": "pods", "namespace": "default"}


class TestAccess:
    def test_self_subject_access_review_decides_for_the_user(self, authorizer: Authorizer) -> None:
        document: Document = {"metadata": {}, "spec": {"resourceAttributes": PODS}}
        answer = reviews.self_subject_access_review(document, user=ALICE, authorizer=authorizer)
        assert answer == {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": {"resourceAttributes": PODS},
            "status": {"allowed": False},
        }
        answer = reviews.self_subject_access_review(document, user=ROOT, authorizer=authorizer)
        assert answer["status"] == {"allowed": True}

    def test_subject_access_review_has_the_reason(self, authorizer: Authorizer) -> None:
        asked = {"verb": "create", "group": "authorization.k8s.io", "resource": "selfsubjectaccessreviews"}
        document: Document = {"spec": {"resourceAttributes": asked}}
        answer = reviews.self_subject_access_review(document, user=ALICE, authorizer=authorizer)
        assert answer["status"] == {
            "allowed": True,
            "reason": 'RBAC: allowed by ClusterRoleBinding "system:basic-user" of ClusterRole "system:basic-user" '
            'to Group "system:authenticated"',
        }

    def test_subject_access_review_decides_for_others(self, authorizer: Authorizer) -> None:
        path = {"path": "/api", "verb": "get"}
        for groups, allowed in ((["g"], False), (["system:authenticated"], True), (["system:masters"], True)):
            document: Document = {"spec": {"user": "alice", "groups": groups, "nonResourceAttributes": path}}
            answer = reviews.subject_access_review(document, authorizer=authorizer)
            assert answer["status"]["allowed"] is allowed

    def test_access_review_of_groups_without_a_user_is_evaluated(
        self, authorizer: Authorizer, kept: FakeObjects
    ) -> None:
        kept.bind("view", user(""), namespace="default")
        document: Document = {"spec": {"groups": ["g"], "resourceAttributes": PODS}}
        assert reviews.subject_access_review(document, authorizer=authorizer)["kind"] == "SubjectAccessReview"

    def test_subject_access_review_uses_every_attribute(self, authorizer: Authorizer) -> None:
        asked = {"verb": "approve", "group": "certificates.k8s.io", "resource": "signers", "name": "x"}
        document: Document = {"spec": {"user": "u", "resourceAttributes": asked}}
        assert reviews.subject_access_review(document, authorizer=authorizer)["status"] == {"allowed": False}

    def test_local_subject_access_review_is_limited_to_its_namespace(
        self, authorizer: Authorizer, kept: FakeObjects
    ) -> None:
        kept.bind("view", user("carol"), name="c", namespace="default")
        document: Document = {
            "metadata": {"namespace": "default"},
            "spec": {"user": "carol", "resourceAttributes": PODS},
        }
        answer = reviews.local_subject_access_review(document, authorizer=authorizer)
        assert answer["kind"] == "LocalSubjectAccessReview"
        assert answer["status"] == {
            "allowed": True,
            "reason": 'RBAC: allowed by RoleBinding "c/default" of ClusterRole "view" to User "carol"',
        }

    def test_access_review_refusal_lacks_the_kind(self, authorizer: Authorizer) -> None:
        with pytest.raises(status.Refusal) as caught:
            reviews.subject_access_review({}, authorizer=authorizer)
        assert caught.value.code == 422
        assert caught.value.message == (
            '.authorization.k8s.io "" is invalid: [spec.resourceAttributes: Invalid value: null: '
            "exactly one of nonResourceAttributes or resourceAttributes must be specified, "
            'spec.user: Invalid value: "": at least one of user or group must be specified]'
        )
        assert caught.value.details is not None
        assert caught.value.details["group"] == "authorization.k8s.io"
        assert "kind" not in caught.value.details

    @pytest.mark.parametrize(
        ("document", "told"),
        [
            (
                {"spec": {"resourceAttributes": {}, "nonResourceAttributes": {"path": "/a", "verb": "get"}}},
                'spec.nonResourceAttributes: Invalid value: {"Path":"/a","Verb":"get"}: '
                "cannot be specified in combination with resourceAttributes",
            ),
            (
                {"metadata": {"name": "x"}, "spec": {"resourceAttributes": {}}},
                'metadata: Invalid value: {"name":"x"}: must be empty',
            ),
            (
                {"spec": {"resourceAttributes": {"fieldSelector": {}}}},
                "spec.resourceAttributes.fieldSelector.requirements: Required value: when "
                "spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
            ),
            (
                {
                    "spec": {
                        "resourceAttributes": {
                            "labelSelector": {
                                "rawSelector": "a=b",
                                "requirements": [{"key": "a", "operator": "Exists"}],
                            }
                        }
                    }
                },
                'spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a=b": '
                "may not specified at the same time as requirements",
            ),
        ],
    )
    def test_invalid_access_review_is_rejected(
        self, authorizer: Authorizer, document: Document, told: str
    ) -> None:
        with pytest.raises(status.Refusal) as caught:
            reviews.self_subject_access_review(document, user=ALICE, authorizer=authorizer)
        assert caught.value.message == f'.authorization.k8s.io "" is invalid: {told}'

    @pytest.mark.parametrize(
        ("metadata", "spec", "told"),
        [
            (
                {"namespace": "default"},
                {"nonResourceAttributes": {"path": "/api", "verb": "get"}},
                'spec.nonResourceAttributes: Invalid value: {"Path":"/api","Verb":"get"}: '
                "disallowed on this kind of request",
            ),
            (
                {"namespace": "default"},
                {"resourceAttributes": {"namespace": "x"}},
                'spec.resourceAttributes.namespace: Invalid value: "x": must match metadata.namespace',
            ),
            (
                {"namespace": "default", "name": "u"},
                {"resourceAttributes": PODS},
                'metadata: Invalid value: {"name":"u","namespace":"default"}: must be empty except for namespace',
            ),
        ],
    )
    def test_invalid_local_access_review_is_rejected(
        self, authorizer: Authorizer, metadata: Document, spec: Document, told: str
    ) -> None:
        document = {"metadata": metadata, "spec": {"user": "a", **spec}}
        with pytest.raises(status.Refusal) as caught:
            reviews.local_subject_access_review(document, authorizer=authorizer)
        assert caught.value.message == f'.authorization.k8s.io "" is invalid: {told}'

    def test_local_access_review_of_another_namespace_than_the_request_is_rejected(
        self, authorizer: Authorizer
    ) -> None:
        spec = {"user": "carol", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "x"}}
        with pytest.raises(status.Refusal) as caught:
            reviews.local_subject_access_review(
                {"metadata": {"namespace": "x"}, "spec": spec}, authorizer=authorizer, namespace="default"
            )
        assert (caught.value.code, caught.value.message) == (400, reviews.NAMESPACE_MISMATCH)
        with pytest.raises(status.Refusal, match=reviews.OTHER_NAMESPACE):
            reviews.local_subject_access_review({"spec": spec}, authorizer=authorizer, namespace="default")
        own = {"user": "carol", "resourceAttributes": PODS}
        answer = reviews.local_subject_access_review(
            {"spec": own}, authorizer=authorizer, namespace="default"
        )
        assert answer["metadata"] == {"namespace": "default"}

    def test_local_access_review_without_a_namespace_is_rejected(self, authorizer: Authorizer) -> None:
        spec = {"user": "a", "resourceAttributes": {"verb": "get", "resource": "pods"}}
        with pytest.raises(status.Refusal, match=reviews.OTHER_NAMESPACE):
            reviews.local_subject_access_review(
                {"metadata": {"namespace": "default"}, "spec": spec}, authorizer=authorizer
            )


class TestRules:
    def test_self_subject_rules_review_lists_all_rules(self, authorizer: Authorizer) -> None:
        document: Document = {"spec": {"namespace": "default"}}
        answer = reviews.self_subject_rules_review(document, user=ALICE, authorizer=authorizer)
        assert answer == {
            "kind": "SelfSubjectRulesReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": {},
            "status": {
                "resourceRules": [
                    {
                        "verbs": ["create"],
                        "apiGroups": ["authorization.k8s.io"],
                        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                    },
                    {
                        "verbs": ["create"],
                        "apiGroups": ["authentication.k8s.io"],
                        "resources": ["selfsubjectreviews"],
                    },
                ],
                "nonResourceRules": [
                    {
                        "verbs": ["get"],
                        "nonResourceURLs": [
                            "/api",
                            "/api/*",
                            "/apis",
                            "/apis/*",
                            "/healthz",
                            "/livez",
                            "/openapi",
                            "/openapi/*",
                            "/readyz",
                            "/version",
                            "/version/",
                        ],
                    },
                    {
                        "verbs": ["get"],
                        "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"],
                    },
                ],
                "incomplete": False,
            },
        }

    def test_rules_review_lists_rules_and_missing_roles(
        self, authorizer: Authorizer, kept: FakeObjects
    ) -> None:
        kept.bind("view", user("alice"), name="v", namespace="default")
        kept.bind("gone", user("alice"))
        document: Document = {"spec": {"namespace": "default"}}
        review = reviews.self_subject_rules_review(document, user=ALICE, authorizer=authorizer)["status"]
        assert any("pods" in rule["resources"] for rule in review["resourceRules"])
        assert review["evaluationError"] == 'clusterrole.rbac.authorization.k8s.io "gone" not found'

    def test_rules_of_system_masters_come_from_their_binding(self, authorizer: Authorizer) -> None:
        document: Document = {"spec": {"namespace": "default"}}
        review = reviews.self_subject_rules_review(document, user=ROOT, authorizer=authorizer)["status"]
        assert review["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]

    def test_self_subject_rules_review_needs_a_namespace(self, authorizer: Authorizer) -> None:
        with pytest.raises(status.Refusal, match=reviews.NAMESPACE_NEEDED):
            reviews.self_subject_rules_review({}, user=ALICE, authorizer=authorizer)
