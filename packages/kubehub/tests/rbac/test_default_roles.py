"""The default roles: complete, valid, and sufficient for the components that need them."""

from typing import Any

import pytest
from fake_objects import FakeObjects, rule, user

from kubehub.rbac import default_roles, roles
from kubehub.rbac.authorizer import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, Attributes, Authorizer
from kubehub.resource import Document
from kubehub.user import User

ANYBODY = User(name="alice", groups=("system:authenticated",))
NOBODY = User(name="system:anonymous", groups=("system:unauthenticated",))


@pytest.fixture
def kept() -> FakeObjects:
    kept = FakeObjects()
    for resource, document in default_roles.documents():
        kept.put(resource, document)
    return kept


@pytest.fixture
def authorizer(kept: FakeObjects) -> Authorizer:
    return Authorizer(kept)


def allowed(
    authorizer: Authorizer, who: User, verb: str, resource: str = "", ns: str = "ns", **more: Any
) -> bool:
    name, _, group = resource.partition(".")
    name, _, sub = name.partition("/")
    asked = Attributes(verb=verb, group=group, resource=name, subresource=sub, namespace=ns, **more)
    return authorizer.decide(who, asked).allowed


def opened(authorizer: Authorizer, who: User, path: str) -> bool:
    return authorizer.decide(who, Attributes(verb="get", path=path)).allowed


class TestTable:
    def test_default_roles_are_valid(self) -> None:
        for resource, document in default_roles.documents():
            namespaced = "namespace" in document["metadata"]
            if "binding" in resource:
                assert roles.check_binding(document, None, namespaced=namespaced) == []
            else:
                assert roles.check_role(document, namespaced=namespaced) == []
            kind = document["kind"].lower() + "s"
            assert resource == f"{kind}.rbac.authorization.k8s.io"

    def test_default_role_names_are_unique(self) -> None:
        keys = [
            (r, d["metadata"].get("namespace"), d["metadata"]["name"]) for r, d in default_roles.documents()
        ]
        assert len(keys) == len(set(keys))

    def test_every_binding_has_its_role(self) -> None:
        known = {
            (d["kind"], d["metadata"].get("namespace", ""), d["metadata"]["name"])
            for r, d in default_roles.documents()
            if "binding" not in r
        }
        for resource, document in default_roles.documents():
            if "binding" in resource:
                ref = document["roleRef"]
                place = document["metadata"].get("namespace", "") if ref["kind"] == "Role" else ""
                assert (ref["kind"], place, ref["name"]) in known

    def test_default_roles_match_kubernetes(self) -> None:
        defaults = {(r, d["metadata"]["name"]): d for r, d in default_roles.documents()}
        meta = {
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        }
        assert defaults[CLUSTER_ROLES, "system:public-info-viewer"] == {
            "kind": "ClusterRole",
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": "system:public-info-viewer", **meta},
            "rules": [
                {
                    "verbs": ["get"],
                    "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"],
                }
            ],
        }
        assert defaults[CLUSTER_ROLE_BINDINGS, "system:kube-dns"]["subjects"] == [
            {"kind": "ServiceAccount", "name": "kube-dns", "namespace": "kube-system"}
        ]
        edit = defaults[CLUSTER_ROLES, "edit"]
        assert edit["rules"] is None
        assert edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"] == "true"
        assert edit["aggregationRule"] == {
            "clusterRoleSelectors": [{"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}]
        }

    def test_default_role_documents_are_copies(self) -> None:
        first = dict(default_roles.documents())
        first[CLUSTER_ROLES]["rules"].append("x")
        assert "x" not in dict(default_roles.documents())[CLUSTER_ROLES]["rules"]


class TestPermissions:
    def test_anonymous_user_may_read_health(self, authorizer: Authorizer) -> None:
        assert all(opened(authorizer, NOBODY, path) for path in ("/healthz", "/livez", "/readyz", "/version"))
        assert not any(
            opened(authorizer, NOBODY, path) for path in ("/api", "/metrics", "/healthz/x", "/openapi/v2")
        )

    def test_any_user_can_discover_and_review_own_rights(self, authorizer: Authorizer) -> None:
        assert all(
            opened(authorizer, ANYBODY, path) for path in ("/api", "/apis/apps/v1", "/openapi/v3", "/version")
        )
        assert not opened(authorizer, ANYBODY, "/metrics")
        assert allowed(authorizer, ANYBODY, "create", "selfsubjectaccessreviews.authorization.k8s.io", "")
        assert not allowed(authorizer, ANYBODY, "create", "subjectaccessreviews.authorization.k8s.io", "")
        assert not allowed(authorizer, ANYBODY, "list", "pods")

    @pytest.mark.parametrize(
        ("role", "may", "may_not"),
        [
            (
                "view",
                ["get pods", "list deployments.apps", "watch configmaps"],
                ["get secrets", "create pods"],
            ),
            (
                "edit",
                ["get pods", "get secrets", "create pods", "patch deployments.apps"],
                ["create roles.rbac.authorization.k8s.io"],
            ),
            (
                "admin",
                ["get secrets", "create roles.rbac.authorization.k8s.io"],
                ["create resourcequotas", "update pods/status"],
            ),
        ],
    )
    def test_admin_edit_and_view_apply_to_a_namespace(
        self, kept: FakeObjects, authorizer: Authorizer, role: str, may: list[str], may_not: list[str]
    ) -> None:
        kept.bind(role, user("carol"), name="c", namespace="ns")
        carol = User(name="carol")

        def permitted(asked: list[str], namespace: str = "ns") -> list[str]:
            return [a for a in asked if allowed(authorizer, carol, a.split()[0], a.split()[1], namespace)]

        assert permitted(may) == may
        assert permitted(may_not) == []
        assert permitted(may, "other") == []

    def test_custom_resources_join_the_usual_roles(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        kept.bind("admin", user("carol"), name="c", namespace="ns")
        carol = User(name="carol")
        assert not allowed(authorizer, carol, "get", "widgets.example.com")
        labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        kept.cluster_role("widgets", rule("get", "example.com", "widgets"), labels=labels)
        assert allowed(authorizer, carol, "get", "widgets.example.com")

    def test_namespace_admin_cannot_escalate(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        kept.bind("admin", user("carol"), name="c", namespace="ns")
        carol = User(name="carol", groups=("system:authenticated",))
        document: Document = {
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": roles.GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        }
        with pytest.raises(Exception, match="not currently held"):
            authorizer.admit("rolebindings", document, None, user=carol, namespace="ns")
        document["roleRef"]["name"] = "edit"
        authorizer.admit("rolebindings", document, None, user=carol, namespace="ns")

    def test_accounts_can_read_the_issuers_keys(self, authorizer: Authorizer) -> None:
        service = User(
            name="system:serviceaccount:a:b", groups=("system:serviceaccounts", "system:authenticated")
        )
        assert opened(authorizer, service, "/openid/v1/jwks")
        assert not opened(authorizer, ANYBODY, "/openid/v1/jwks")

    def test_controller_manager_has_its_default_role(self, authorizer: Authorizer) -> None:
        manager = User(name="system:kube-controller-manager", groups=("system:authenticated",))
        for asked in (
            "patch deployments.apps",
            "get pods",
            "create pods",
            "update replicasets.apps/status",
            "delete widgets.example.com",
            "update namespaces/finalize",
            "create endpointslices.discovery.k8s.io",
            "update certificatesigningrequests.certificates.k8s.io",
            "create serviceaccounts/token",
        ):
            verb, resource = asked.split()
            name, _, group = resource.partition(".")
            group, _, sub = group.partition("/")
            full = f"{name}/{sub}.{group}" if sub else resource
            assert allowed(authorizer, manager, verb, full), asked
        for name in ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client"):
            assert allowed(authorizer, manager, "sign", "signers.certificates.k8s.io", "", name=name)
        assert not allowed(authorizer, manager, "impersonate", "users", "")
        assert not allowed(authorizer, manager, "create", "clusterrolebindings.rbac.authorization.k8s.io", "")

    def test_controller_account_has_its_default_role(self, authorizer: Authorizer) -> None:
        job = User(name="system:serviceaccount:kube-system:job-controller")
        assert allowed(authorizer, job, "create", "pods")
        assert not allowed(authorizer, job, "create", "secrets")


WANTED: Document = {
    "metadata": {"name": "r", "labels": {"a": "b"}},
    "rules": [rule("get list", "core", "pods")],
}


class TestReconciling:
    def test_complete_default_role_is_left_alone(self) -> None:
        assert default_roles.reconcile(WANTED, WANTED) is None
        more = WANTED | {"rules": [rule("*", "*", "*")]}
        assert default_roles.reconcile(more, WANTED) is None

    def test_reconciled_role_gets_missing_rules_and_keeps_added_ones(self) -> None:
        kept = {
            "metadata": {"name": "r", "resourceVersion": "5"},
            "rules": [rule("get", "core", "pods secrets")],
        }
        reconciled = default_roles.reconcile(kept, WANTED)
        assert reconciled == {
            "metadata": {"name": "r", "resourceVersion": "5", "labels": {"a": "b"}},
            "rules": [rule("get", "core", "pods secrets"), rule("list", "core", "pods")],
        }
        assert default_roles.reconcile(reconciled, WANTED) is None

    def test_missing_subjects_of_default_binding_are_added(self) -> None:
        wanted: Document = {
            "metadata": {"name": "b"},
            "roleRef": {"name": "r"},
            "subjects": [user("a"), user("b")],
        }
        kept: Document = wanted | {"subjects": [user("c"), user("a")]}
        reconciled = default_roles.reconcile(kept, wanted)
        assert reconciled is not None
        assert reconciled["subjects"] == [user("c"), user("a"), user("b")]

    def test_default_role_with_autoupdate_off_is_left_alone(self) -> None:
        marked = {"metadata": {"name": "r", "annotations": {default_roles.AUTO_UPDATE: "false"}}, "rules": []}
        assert default_roles.reconcile(marked, WANTED) is None
        binding: Document = {"metadata": {"name": "b"}, "roleRef": {"name": "mine"}}
        assert default_roles.reconcile(binding, binding | {"roleRef": {"name": "default"}}) is None
