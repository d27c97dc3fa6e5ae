"""RBAC decisions, and the check against privilege escalation."""

import pytest
from fake_objects import FakeObjects, account, group, paths, rule, user
from hypothesis import given
from hypothesis import strategies as st

from kubehub import status
from kubehub.rbac import authorizer as authorization
from kubehub.rbac.authorizer import Attributes, Authorizer
from kubehub.rbac.roles import GROUP
from kubehub.resource import Document
from kubehub.user import User

ALICE = User(name="alice", groups=("devs", "system:authenticated"))
ROOT = User(name="root", groups=("system:masters",))
SERVICE = User(name="system:serviceaccount:ns:sa", groups=("system:serviceaccounts",))


@pytest.fixture
def kept() -> FakeObjects:
    return FakeObjects()


@pytest.fixture
def authorizer(kept: FakeObjects) -> Authorizer:
    return Authorizer(kept)


def pods(verb: str = "get", namespace: str = "ns", name: str = "", sub: str = "") -> Attributes:
    return Attributes(verb=verb, resource="pods", namespace=namespace, name=name, subresource=sub)


class TestDecision:
    def test_user_without_bindings_is_denied(self, authorizer: Authorizer) -> None:
        decision = authorizer.decide(ALICE, pods())
        assert (decision.allowed, decision.reason) == (False, "")

    def test_system_masters_are_allowed_everything(self, authorizer: Authorizer) -> None:
        assert authorizer.decide(ROOT, pods()).allowed
        assert authorizer.decide(ROOT, Attributes(verb="get", path="/metrics")).allowed

    def test_user_named_like_system_masters_is_denied(self, authorizer: Authorizer) -> None:
        assert not authorizer.decide(User(name="system:masters"), pods()).allowed

    @pytest.mark.parametrize(
        ("who", "subject", "told"),
        [
            (ALICE, user("alice"), 'User "alice"'),
            (ALICE, group("devs"), 'Group "devs"'),
            (SERVICE, account("sa", "ns"), 'ServiceAccount "sa/ns"'),
        ],
    )
    def test_cluster_role_binding_grants_in_every_namespace(
        self, kept: FakeObjects, authorizer: Authorizer, who: User, subject: Document, told: str
    ) -> None:
        kept.cluster_role("reader", rule("get", "core", "pods"))
        kept.bind("reader", group("others"), subject, name="b")
        for namespace in ("", "ns", "other"):
            decision = authorizer.decide(who, pods(namespace=namespace))
            assert decision.allowed
            assert (
                decision.reason
                == f'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "reader" to {told}'
            )
        assert not authorizer.decide(User(name="bob"), pods()).allowed

    @pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
    def test_role_binding_grants_in_its_namespace_only(
        self, kept: FakeObjects, authorizer: Authorizer, kind: str
    ) -> None:
        if kind == "Role":
            kept.role("ns", "reader", rule("get", "core", "pods"))
        else:
            kept.cluster_role("reader", rule("get", "core", "pods"))
        kept.bind("reader", account("sa"), name="b", namespace="ns", kind=kind)
        decision = authorizer.decide(SERVICE, pods())
        assert (
            decision.reason
            == f'RBAC: allowed by RoleBinding "b/ns" of {kind} "reader" to ServiceAccount "sa/ns"'
        )
        for namespace in ("", "other"):
            assert not authorizer.decide(SERVICE, pods(namespace=namespace)).allowed

    def test_role_binding_ignores_roles_of_other_namespaces(
        self, kept: FakeObjects, authorizer: Authorizer
    ) -> None:
        kept.role("other", "reader", rule("get", "core", "pods"))
        kept.bind("reader", user("alice"), namespace="ns", kind="Role")
        decision = authorizer.decide(ALICE, pods())
        assert not decision.allowed
        assert decision.reason == 'RBAC: role.rbac.authorization.k8s.io "reader" not found'

    def test_service_account_subject_without_namespace_is_ignored(
        self, kept: FakeObjects, authorizer: Authorizer
    ) -> None:
        kept.cluster_role("reader", rule("get", "core", "pods"))
        kept.bind("reader", account("sa"))
        assert not authorizer.decide(SERVICE, pods()).allowed
        assert not authorizer.decide(User(name="system:serviceaccount::sa"), pods()).allowed

    def test_users_and_groups_are_not_mixed_up(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        kept.cluster_role("reader", rule("get", "core", "pods"))
        kept.bind("reader", user("devs"), group("alice"))
        assert not authorizer.decide(ALICE, pods()).allowed

    def test_resource_names_limit_a_rule(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        kept.cluster_role(
            "some", rule("get delete", "core", "pods", "a b"), rule("delete", "core", "pods", "c")
        )
        kept.bind("some", user("alice"))
        assert [
            n for n in ("", "a", "b", "c", "d", "*") if authorizer.decide(ALICE, pods(name=n)).allowed
        ] == ["a", "b"]
        deletable = [
            n for n in ("", "a", "c", "d") if authorizer.decide(ALICE, pods("delete", name=n)).allowed
        ]
        assert deletable == ["a", "c"]

    def test_non_resource_urls_are_matched(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        kept.cluster_role("paths", paths("get", "/healthz /api/*"), rule("*", "*", "*"))
        kept.bind("paths", user("alice"))
        for path, expected in (("/healthz", True), ("/healthz/x", False), ("/api/v1", True), ("/api", False)):
            assert authorizer.decide(ALICE, Attributes(verb="get", path=path)).allowed is expected
        assert not authorizer.decide(ALICE, Attributes(verb="post", path="/healthz")).allowed

    def test_paths_are_never_a_namespaces_to_give(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        kept.cluster_role("paths", paths("*", "*"))
        kept.bind("paths", user("alice"), namespace="ns")
        assert not authorizer.decide(ALICE, Attributes(verb="get", path="/metrics")).allowed

    def test_missing_role_is_reported_once_and_hides_no_other(
        self, kept: FakeObjects, authorizer: Authorizer
    ) -> None:
        kept.bind("gone", user("alice"), name="a")
        kept.bind("gone", user("alice"), name="b")
        kept.bind("lost", user("alice"), name="c", namespace="ns", kind="Role")
        decision = authorizer.decide(ALICE, pods())
        assert decision.reason == (
            'RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
            'role.rbac.authorization.k8s.io "lost" not found]'
        )
        kept.cluster_role("reader", rule("get", "core", "pods"))
        kept.bind("reader", user("alice"), name="z")
        assert authorizer.decide(ALICE, pods()).allowed

    def test_aggregated_role_grants_its_rules(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        selectors = {"clusterRoleSelectors": [{"matchLabels": {"to": "view"}}]}
        kept.cluster_role("view", rule("*", "*", "*"), aggregationRule=selectors)
        kept.bind("view", user("alice"))
        assert not authorizer.decide(ALICE, pods()).allowed
        kept.cluster_role("part", rule("get", "core", "pods"), labels={"to": "view"})
        assert authorizer.decide(ALICE, pods()).allowed
        assert not authorizer.decide(ALICE, pods("delete")).allowed
        kept.cluster_role("part", rule("get", "core", "pods"))
        assert not authorizer.decide(ALICE, pods()).allowed


class TestRefusal:
    """The messages are those of kube-apiserver v1.36.3 for the same requests."""

    @pytest.mark.parametrize(
        ("asked", "told", "details"),
        [
            (
                pods("list", "default"),
                'pods is forbidden: User "alice" cannot list resource "pods" in API group "" '
                'in the namespace "default"',
                {"kind": "pods"},
            ),
            (
                pods("list", ""),
                'pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope',
                {"kind": "pods"},
            ),
            (
                pods("get", "default", "x", "log"),
                'pods "x" is forbidden: User "alice" cannot get resource "pods/log" in API group "" '
                'in the namespace "default"',
                {"name": "x", "kind": "pods"},
            ),
            (
                Attributes(
                    verb="get",
                    group="apps",
                    resource="deployments",
                    subresource="status",
                    namespace="default",
                    name="x",
                ),
                'deployments.apps "x" is forbidden: User "alice" cannot get resource "deployments/status" '
                'in API group "apps" in the namespace "default"',
                {"name": "x", "group": "apps", "kind": "deployments"},
            ),
            (
                Attributes(verb="get", path="/metrics"),
                'forbidden: User "alice" cannot get path "/metrics"',
                {},
            ),
            (
                Attributes(verb="get", path="/<b>&"),
                'forbidden: User "alice" cannot get path "/&lt;b&gt;&amp;"',
                {},
            ),
        ],
    )
    def test_forbidden_message_is_kubernetes_own(
        self, authorizer: Authorizer, asked: Attributes, told: str, details: dict[str, str]
    ) -> None:
        with pytest.raises(status.Refusal) as caught:
            authorizer.authorize(ALICE, asked)
        assert caught.value.document() == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": told,
            "reason": "Forbidden",
            "details": details,
            "code": 403,
        }

    def test_denial_names_missing_roles(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        kept.bind("gone", user("alice"))
        with pytest.raises(
            status.Refusal, match=r'cluster scope: RBAC: clusterrole\.rbac.* "gone" not found$'
        ):
            authorizer.authorize(ALICE, pods("list", ""))


class TestFollowing:
    def test_changed_binding_takes_effect_at_once(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        kept.cluster_role("reader", rule("get", "core", "pods"))
        kept.bind("reader", user("alice"), name="b")
        assert authorizer.decide(ALICE, pods()).allowed
        kept.bind("reader", user("bob"), name="b")
        assert not authorizer.decide(ALICE, pods()).allowed
        assert authorizer.decide(User(name="bob"), pods()).allowed
        kept.cluster_role("reader", rule("list", "core", "pods"))
        assert not authorizer.decide(User(name="bob"), pods()).allowed
        kept.delete(f"clusterrolebindings.{GROUP}", "b")
        assert not authorizer.decide(User(name="bob"), pods("list")).allowed

    def test_authorizer_reads_only_changed_objects(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        for index in range(20):
            kept.cluster_role(f"r{index}", rule("get", "core", "pods"))
            kept.bind(f"r{index}", user("alice"), name=f"b{index}")
        assert authorizer.decide(ALICE, pods()).allowed
        kept.reads.clear()
        kept.bind("r1", user("carol"), name="b7")
        authorizer.decide(ALICE, pods())
        assert kept.reads == [(f"clusterrolebindings.{GROUP}", "", "b7")]

    def test_authorizer_reads_nothing_without_changes(
        self, kept: FakeObjects, authorizer: Authorizer
    ) -> None:
        kept.cluster_role("reader", rule("get", "core", "pods"))
        authorizer.decide(ALICE, pods())
        kept.reads.clear()
        for name in ("bob", "carol"):
            authorizer.decide(User(name=name), pods())
        assert kept.reads == []

    def test_decision_cache_is_bounded(
        self, kept: FakeObjects, authorizer: Authorizer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(authorization, "_CACHE_SIZE", 5)
        for index in range(30):
            authorizer.decide(User(name=f"u{index}"), pods(namespace=f"n{index}"))
            authorizer.decide(ALICE, Attributes(verb="get", path=f"/{index}"))
        assert len(authorizer._grants) <= 5
        assert all(len(known._known) <= 5 for known in authorizer._grants.values())

    def test_deleted_bindings_leave_the_index(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        kept.bind("r", user("alice"), group("devs"), name="b", namespace="ns")
        authorizer.decide(ALICE, pods())
        kept.delete(f"rolebindings.{GROUP}", "b", "ns")
        authorizer.decide(ALICE, pods())
        assert authorizer._bindings == {}


NAMES = st.sampled_from(["a", "b"])
PLACES = st.sampled_from(["", "ns", "other"])
RULES = st.lists(
    st.builds(rule, st.sampled_from(["get", "*"]), st.just("core"), st.sampled_from(["pods", "*"])),
    max_size=2,
)
SUBJECTS = st.lists(
    st.sampled_from([user("alice"), user("bob"), group("devs"), account("sa", "ns"), account("sa")]),
    max_size=2,
)


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, str, str, Document | None]:
    name, place = draw(NAMES), draw(PLACES)
    meta: Document = {"name": name} | ({"namespace": place} if place else {})
    kind = draw(st.sampled_from(["role", "binding"]))
    resource = ("" if place else "cluster") + kind + "s"
    if kind == "binding":
        resource = ("" if place else "cluster") + "rolebindings"
    if draw(st.integers(0, 3)) == 0:
        return resource, place, name, None
    if kind == "role":
        labels = {"to": draw(st.sampled_from(["x", "y"]))}
        document: Document = {"metadata": meta | {"labels": labels}, "rules": draw(RULES)}
        if not place and draw(st.booleans()):
            document["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {"to": "x"}}]}
        return resource, place, name, document
    ref = {"kind": draw(st.sampled_from(["Role", "ClusterRole"])), "name": draw(NAMES)}
    return resource, place, name, {"metadata": meta, "roleRef": ref, "subjects": draw(SUBJECTS)}


@given(st.lists(steps(), max_size=12))
def test_incremental_index_equals_a_rebuilt_one(changes: list[tuple[str, str, str, Document | None]]) -> None:
    kept = FakeObjects()
    following = Authorizer(kept)
    asked = [
        (who, Attributes(verb=verb, resource=resource, namespace=place))
        for who in (ALICE, User(name="bob"), SERVICE)
        for verb in ("get", "list")
        for resource in ("pods", "secrets")
        for place in ("", "ns", "other")
    ]
    for resource, place, name, document in changes:
        key = f"{resource}.{GROUP}"
        if document is not None:
            kept.put(key, document)
        elif kept.document(key, place, name) is not None:
            kept.delete(key, name, place)
        fresh = Authorizer(kept)
        for who, attributes in asked:
            assert following.decide(who, attributes) == fresh.decide(who, attributes)


def grants(*rules: Document, name: str = "r") -> Document:
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(role: str, kind: str = "ClusterRole", **more: str) -> Document:
    ref = {"apiGroup": GROUP, "kind": kind, "name": role}
    return {"metadata": {"name": "b", **more}, "roleRef": ref, "subjects": [user("alice")]}


class TestEscalation:
    """Alice may write every role and binding; that must not give her more permissions."""

    @pytest.fixture(autouse=True)
    def _alice(self, kept: FakeObjects) -> None:
        writes = rule("create update patch get delete", GROUP, "*")
        kept.cluster_role("rolemaker", writes, rule("get", "core", "pods */status"))
        kept.bind("rolemaker", user("alice"))
        kept.cluster_role("cluster-admin", rule("*", "*", "*"), paths("*", "*"))

    def refused(
        self,
        authorizer: Authorizer,
        resource: str,
        document: Document,
        old: Document | None = None,
        ns: str = "",
    ) -> str:
        with pytest.raises(status.Refusal) as caught:
            authorizer.admit(resource, document, old, user=ALICE, namespace=ns)
        assert caught.value.code == 403
        return caught.value.message

    def test_user_may_grant_permissions_she_holds(self, authorizer: Authorizer) -> None:
        held = grants(rule("get", "core", "pods services/status pods/status"))
        authorizer.admit("roles", held, None, user=ALICE, namespace="ns")
        authorizer.admit("clusterroles", held, None, user=ALICE)
        authorizer.admit("clusterroles", held, grants(), user=ALICE)

    def test_escalation_message_lists_missing_permissions(self, authorizer: Authorizer) -> None:
        wanted = grants(
            rule("get list", "core apps", "pods secrets"),
            rule("watch", "core", "secrets", "a b"),
            rule("get", "*", "x/status"),
        )
        assert self.refused(authorizer, "roles", wanted, ns="ns") == (
            'roles.rbac.authorization.k8s.io "r" is forbidden: user "alice" (groups=["devs" "system:authenticated"]) '
            "is attempting to grant RBAC permissions not currently held:\n"
            '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}\n'
            '{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["watch"]}\n'
            '{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["watch"]}\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}\n'
            '{APIGroups:["*"], Resources:["x/status"], Verbs:["get"]}\n'
            '{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list"]}\n'
            '{APIGroups:["apps"], Resources:["secrets"], Verbs:["get" "list"]}'
        )

    def test_escalation_check_covers_non_resource_urls(self, authorizer: Authorizer) -> None:
        told = self.refused(authorizer, "clusterroles", grants(paths("get post", "/metrics /x/*")))
        assert told.splitlines()[1:] == [
            '{NonResourceURLs:["/metrics"], Verbs:["get"]}',
            '{NonResourceURLs:["/metrics"], Verbs:["post"]}',
            '{NonResourceURLs:["/x/*"], Verbs:["get"]}',
            '{NonResourceURLs:["/x/*"], Verbs:["post"]}',
        ]

    @pytest.mark.parametrize(
        "sneaky",
        [
            rule("*", "core", "pods"),
            rule("get", "*", "pods"),
            rule("get", "core", "*"),
            rule("get", "core", "*/log"),
            rule("get", "core", "pods/*"),
            rule("get", "core", "pods secrets"),
            rule("impersonate", "core", "users"),
            rule("escalate bind", GROUP, "clusterroles"),
            rule("create", "core", "serviceaccounts/token"),
        ],
    )
    def test_wildcards_and_other_ways_up(self, authorizer: Authorizer, sneaky: Document) -> None:
        assert "not currently held" in self.refused(authorizer, "clusterroles", grants(sneaky))

    def test_permissions_of_a_namespace_cannot_be_granted_elsewhere(
        self, kept: FakeObjects, authorizer: Authorizer
    ) -> None:
        kept.role("ns", "local", rule("*", "core", "secrets"))
        kept.bind("local", user("alice"), namespace="ns", kind="Role")
        wanted = grants(rule("get", "core", "secrets"))
        authorizer.admit("roles", wanted, None, user=ALICE, namespace="ns")
        self.refused(authorizer, "roles", wanted, ns="other")
        self.refused(authorizer, "clusterroles", wanted)

    def test_named_objects_are_not_all_objects(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        kept.cluster_role("one", rule("get", "core", "secrets", "mine"))
        kept.bind("one", user("alice"))
        authorizer.admit("clusterroles", grants(rule("get", "core", "secrets", "mine")), None, user=ALICE)
        self.refused(authorizer, "clusterroles", grants(rule("get", "core", "secrets", "mine other")))
        self.refused(authorizer, "clusterroles", grants(rule("get", "core", "secrets")))

    def test_escalation_is_checked_on_update(self, authorizer: Authorizer) -> None:
        old = grants(rule("get", "core", "pods"))
        self.refused(authorizer, "clusterroles", grants(rule("get list", "core", "pods")), old)

    def test_role_with_more_permissions_cannot_be_updated(self, authorizer: Authorizer) -> None:
        old = grants(rule("*", "*", "*"))
        new = old | {"metadata": {"name": "r", "labels": {"to": "edit"}}}
        self.refused(authorizer, "clusterroles", new, old)

    def test_garbage_collector_may_change_owner_references_of_a_role(self, authorizer: Authorizer) -> None:
        old = grants(rule("*", "*", "*"))
        old["metadata"] |= {"finalizers": ["x"], "ownerReferences": [{"name": "o"}]}
        authorizer.admit("clusterroles", grants(rule("*", "*", "*")), old, user=ALICE)

    def test_aggregation_rule_needs_cluster_admin(self, authorizer: Authorizer, kept: FakeObjects) -> None:
        selectors = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
        for new, old in (
            (grants() | {"aggregationRule": selectors}, None),
            (grants() | {"aggregationRule": selectors}, grants()),
            (grants(), grants() | {"aggregationRule": selectors}),
        ):
            assert self.refused(authorizer, "clusterroles", new, old) == (
                'clusterroles.rbac.authorization.k8s.io "r" is forbidden: '
                "must have cluster-admin privileges to use the aggregationRule"
            )
        kept.bind("cluster-admin", user("alice"))
        authorizer.admit("clusterroles", grants() | {"aggregationRule": selectors}, None, user=ALICE)

    def test_escalate_verb_allows_granting_more(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        kept.cluster_role("escalator", rule("escalate", GROUP, "clusterroles", "r"))
        kept.bind("escalator", user("alice"))
        wanted = grants(rule("*", "*", "*"))
        authorizer.admit("clusterroles", wanted, grants(), user=ALICE)
        self.refused(authorizer, "clusterroles", wanted)  # a name isn't granted before there is an object
        self.refused(authorizer, "roles", wanted, ns="ns")
        self.refused(authorizer, "clusterroles", grants(rule("*", "*", "*"), name="s"), grants(name="s"))

    def test_binding_a_role_gives_its_permissions(self, authorizer: Authorizer, kept: FakeObjects) -> None:
        told = self.refused(authorizer, "clusterrolebindings", binding("cluster-admin"))
        assert told == (
            'clusterrolebindings.rbac.authorization.k8s.io "b" is forbidden: user "alice" '
            '(groups=["devs" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
            '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
        )
        self.refused(authorizer, "rolebindings", binding("cluster-admin"), ns="ns")
        kept.cluster_role("pods", rule("get", "core", "pods"))
        authorizer.admit("clusterrolebindings", binding("pods"), None, user=ALICE)

    def test_binding_an_aggregated_role_needs_its_rules(
        self, authorizer: Authorizer, kept: FakeObjects
    ) -> None:
        selectors = {"clusterRoleSelectors": [{"matchLabels": {"to": "x"}}]}
        kept.cluster_role("innocent", aggregationRule=selectors)
        authorizer.admit("clusterrolebindings", binding("innocent"), None, user=ALICE)
        kept.cluster_role("part", rule("get", "core", "secrets"), labels={"to": "x"})
        assert '"secrets"' in self.refused(authorizer, "clusterrolebindings", binding("innocent"))

    def test_adding_subjects_to_a_binding_needs_its_permissions(self, authorizer: Authorizer) -> None:
        old = binding("cluster-admin")
        new = old | {"subjects": [*old["subjects"], user("mallory")]}
        self.refused(authorizer, "clusterrolebindings", new, old)

    def test_bind_verb_allows_binding_more(self, kept: FakeObjects, authorizer: Authorizer) -> None:
        kept.cluster_role("binder", rule("bind", GROUP, "clusterroles", "cluster-admin"))
        kept.bind("binder", user("alice"), namespace="ns")
        authorizer.admit("rolebindings", binding("cluster-admin"), None, user=ALICE, namespace="ns")
        self.refused(authorizer, "rolebindings", binding("cluster-admin"), ns="other")
        self.refused(authorizer, "clusterrolebindings", binding("cluster-admin"))

    def test_binding_to_a_missing_role_is_rejected(self, authorizer: Authorizer) -> None:
        for resource, kind, ns in (
            ("clusterrolebindings", "ClusterRole", ""),
            ("rolebindings", "Role", "ns"),
        ):
            with pytest.raises(status.Refusal) as caught:
                authorizer.admit(resource, binding("nope", kind), None, user=ALICE, namespace=ns)
            assert caught.value.code == 404
            assert caught.value.message == f'{resource}.rbac.authorization.k8s.io "nope" not found'

    def test_binding_to_an_unknown_kind_of_role_is_rejected(self, authorizer: Authorizer) -> None:
        with pytest.raises(status.Refusal, match='unsupported role reference kind: "Foo"'):
            authorizer.admit("rolebindings", binding("x", "Foo"), None, user=ALICE, namespace="ns")

    def test_system_masters_may_grant_everything(self, authorizer: Authorizer) -> None:
        authorizer.admit("clusterrolebindings", binding("cluster-admin"), None, user=ROOT)
        authorizer.admit("clusterroles", grants(rule("*", "*", "*")), None, user=ROOT)

    def test_role_with_too_many_permissions_is_rejected(self, authorizer: Authorizer) -> None:
        many = [f"x{index}" for index in range(1000)]
        huge = {"verbs": many, "apiGroups": many, "resources": many}
        assert "single permissions" in self.refused(authorizer, "clusterroles", grants(huge))

    def test_other_resources_do_not_change_the_index(self, authorizer: Authorizer) -> None:
        authorizer.admit("configmaps", {"metadata": {"name": "x"}}, None, user=ALICE)
