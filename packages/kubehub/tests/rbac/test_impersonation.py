"""Impersonation needs a permission for everything that the headers name."""

import pytest
from fake_objects import FakeObjects, rule, user

from kubehub import status
from kubehub.rbac import impersonation
from kubehub.rbac.authorizer import Attributes, Authorizer
from kubehub.rbac.impersonation import Impersonation
from kubehub.user import User

ALICE = User(name="alice", uid="1", groups=("devs", "system:authenticated"), extra={"k": ("v",)})
ROOT = User(name="root", groups=("system:masters", "system:authenticated"))
PODS = Attributes(verb="list", resource="pods", namespace="default")
AUTHENTICATION = "authentication.k8s.io"


@pytest.fixture
def kept() -> FakeObjects:
    return FakeObjects()


@pytest.fixture
def acting(kept: FakeObjects) -> Impersonation:
    return Impersonation(Authorizer(kept))


def headers(name: str = "", *groups: str, uid: str = "", **extra: str) -> list[tuple[str, str]]:
    fields = [("Impersonate-Group", group) for group in groups]
    fields += [(f"Impersonate-Extra-{key}", value) for key, value in extra.items()]
    fields += [("Impersonate-Uid", uid)] if uid else []
    return [*fields, ("Impersonate-User", name)] if name else fields


def may(kept: FakeObjects, *rules: dict[str, object]) -> None:
    kept.cluster_role("may", *rules)
    kept.bind("may", user("alice"))


def refused(
    acting: Impersonation, *named: tuple[str, str], asked: Attributes = PODS, who: User = ALICE
) -> str:
    with pytest.raises(status.Refusal) as caught:
        acting.impersonate(who, named, asked)
    assert caught.value.code == 403
    return caught.value.message


class TestHeaders:
    def test_request_without_impersonation_headers_keeps_its_user(self, acting: Impersonation) -> None:
        assert acting.impersonate(ALICE, [("Accept", "*/*"), ("X-Impersonate-User", "root")], PODS) is ALICE

    def test_impersonate_headers_name_user_groups_uid_and_extra(self) -> None:
        named = impersonation.requested_user(
            [
                ("impersonate-user", "bob"),
                ("IMPERSONATE-GROUP", "a"),
                ("Impersonate-Group", "b"),
                ("Impersonate-Uid", "7"),
                ("Impersonate-Extra-Foo%2fBar", "y"),
                ("Impersonate-Extra-foo%2Fbar", "z"),
            ]
        )
        assert named == User(name="bob", uid="7", groups=("a", "b"), extra={"foo/bar": ("y", "z")})

    @pytest.mark.parametrize(
        ("given", "shown"),
        [
            (headers(uid="x"), 'Name:"", UID:"x", Groups:[]string(nil), Extra:map[string][]string(nil)'),
            (
                [
                    *headers("", "g", uid="3"),
                    ("Impersonate-Extra-a%2Fb", "x"),
                    ("Impersonate-Extra-a%2Fb", "y"),
                ],
                'Name:"", UID:"3", Groups:[]string{"g"}, Extra:map[string][]string{"a/b":[]string{"x", "y"}}',
            ),
        ],
    )
    def test_impersonate_headers_without_user_are_rejected(
        self, given: list[tuple[str, str]], shown: str
    ) -> None:
        with pytest.raises(status.Refusal) as caught:
            impersonation.requested_user(given)
        assert caught.value.code == 400
        assert (
            caught.value.message
            == f"requested &user.DefaultInfo{{{shown}}} without impersonating a user name"
        )


class TestWho:
    """The impersonated user, where permitted."""

    @pytest.mark.parametrize(
        ("named", "groups"),
        [
            (headers("bob"), ("system:authenticated",)),
            (headers("bob", "x"), ("x", "system:authenticated")),
            (headers("bob", "system:authenticated"), ("system:authenticated",)),
            (headers("bob", "system:unauthenticated"), ("system:unauthenticated",)),
            (headers("system:anonymous"), ("system:unauthenticated",)),
            (
                headers("system:serviceaccount:a:b"),
                ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"),
            ),
            (headers("system:serviceaccount:a:b", "x"), ("x", "system:authenticated")),
            (headers("system:serviceaccount:a:b:c"), ("system:authenticated",)),
            (headers("system:node:n1"), ("system:nodes", "system:authenticated")),
        ],
    )
    def test_impersonated_user_gets_implied_groups(
        self, acting: Impersonation, named: list[tuple[str, str]], groups: tuple[str, ...]
    ) -> None:
        assert acting.impersonate(ROOT, named, PODS).groups == groups

    def test_impersonated_user_has_no_groups_of_the_original(
        self, kept: FakeObjects, acting: Impersonation
    ) -> None:
        may(kept, rule("impersonate", "core", "users", "bob"))
        assert acting.impersonate(ALICE, headers("bob"), PODS) == User(
            name="bob", groups=("system:authenticated",)
        )


class TestOldMode:
    def test_every_part_needs_its_permission(self, kept: FakeObjects, acting: Impersonation) -> None:
        parts = [
            rule("impersonate", "core", "users", "bob"),
            rule("impersonate", "core", "groups", "x"),
            rule("impersonate", AUTHENTICATION, "uids", "7"),
            rule("impersonate", AUTHENTICATION, "userextras/scopes", "s"),
        ]
        named = headers("bob", "x", uid="7", scopes="s")
        may(kept, *parts)
        became = acting.impersonate(ALICE, named, PODS)
        assert (became.uid, became.extra) == ("7", {"scopes": ("s",)})
        for index in range(len(parts)):
            may(kept, *parts[:index], *parts[index + 1 :])
            refused(acting, *named)

    def test_impersonating_masters_needs_groups(self, kept: FakeObjects, acting: Impersonation) -> None:
        may(kept, rule("impersonate", "core", "users"))
        acting.impersonate(ALICE, headers("bob"), PODS)
        assert refused(acting, *headers("bob", "system:masters")) == (
            'groups "system:masters" is forbidden: User "alice" cannot impersonate resource "groups" in API group "" '
            "at the cluster scope"
        )

    def test_impersonated_account_needs_its_namespace(self, kept: FakeObjects, acting: Impersonation) -> None:
        kept.role("ns", "edit", rule("impersonate", "core", "serviceaccounts"))
        kept.bind("edit", user("alice"), namespace="ns", kind="Role")
        assert (
            acting.impersonate(ALICE, headers("system:serviceaccount:ns:sa"), PODS).name
            == "system:serviceaccount:ns:sa"
        )
        refused(acting, *headers("system:serviceaccount:kube-system:sa"))
        refused(acting, *headers("system:serviceaccount:ns:sa", "system:masters"))

    def test_permission_on_users_excludes_accounts(self, kept: FakeObjects, acting: Impersonation) -> None:
        may(kept, rule("impersonate", "core", "users"))
        refused(acting, *headers("system:serviceaccount:ns:sa"))


class TestConstrainedModes:
    """Two permissions: to be the user, and to do this while impersonating."""

    @pytest.mark.parametrize(
        ("mode", "name", "resource"),
        [
            ("user-info", "bob", "users"),
            ("serviceaccount", "system:serviceaccount:ns:sa", "serviceaccounts"),
            ("arbitrary-node", "system:node:n1", "nodes"),
        ],
    )
    def test_constrained_impersonation_needs_both_permissions(
        self, kept: FakeObjects, acting: Impersonation, mode: str, name: str, resource: str
    ) -> None:
        being = rule(f"impersonate:{mode}", AUTHENTICATION, resource)
        doing = rule(f"impersonate-on:{mode}:list", "core", "pods")
        for rules in ([being], [doing], []):
            may(kept, *rules)
            refused(acting, *headers(name))
        may(kept, being, doing)
        assert acting.impersonate(ALICE, headers(name), PODS).name == name
        refused(acting, *headers(name), asked=Attributes(verb="delete", resource="pods", namespace="default"))
        refused(
            acting, *headers(name), asked=Attributes(verb="list", resource="secrets", namespace="default")
        )

    def test_constrained_impersonation_excludes_system_masters(
        self, kept: FakeObjects, acting: Impersonation
    ) -> None:
        may(
            kept,
            rule("impersonate:user-info", AUTHENTICATION, "users groups"),
            rule("impersonate-on:user-info:list", "core", "pods"),
        )
        assert acting.impersonate(ALICE, headers("bob", "devs"), PODS).groups == (
            "devs",
            "system:authenticated",
        )
        assert impersonation.MASTERS_GROUP in refused(acting, *headers("bob", "system:masters"))
        assert impersonation.EMPTY_GROUP in refused(acting, *headers("bob", ""))

    def test_impersonation_rejects_empty_extras(self, kept: FakeObjects, acting: Impersonation) -> None:
        may(
            kept,
            rule("impersonate:user-info", AUTHENTICATION, "*"),
            rule("impersonate-on:user-info:list", "core", "pods"),
        )
        assert impersonation.EMPTY_VALUE in refused(acting, *headers("bob", scopes=""))
        assert impersonation.EMPTY_KEY in refused(acting, *headers("bob"), ("Impersonate-Extra-", "x"))

    def test_node_agent_may_impersonate_its_own_node(self, kept: FakeObjects, acting: Impersonation) -> None:
        agent = User(
            name="system:serviceaccount:ns:agent", extra={"authentication.kubernetes.io/node-name": ("n1",)}
        )
        kept.cluster_role(
            "agent",
            rule("impersonate:associated-node", AUTHENTICATION, "nodes"),
            rule("impersonate-on:associated-node:list", "core", "pods"),
        )
        kept.bind("agent", user(agent.name))
        became = acting.impersonate(agent, headers("system:node:n1"), PODS)
        assert (became.name, became.groups) == ("system:node:n1", ("system:nodes", "system:authenticated"))
        refused(acting, *headers("system:node:n2"), who=agent)
        stranger = User(name=agent.name)
        refused(acting, *headers("system:node:n1"), who=stranger)


class TestWords:
    """The messages are those of kube-apiserver v1.36.3 for the same requests."""

    @pytest.mark.parametrize(
        ("named", "told"),
        [
            (
                headers("bob"),
                'pods is forbidden: User "alice" cannot impersonate-on:user-info:list resource "pods" in API group "" '
                'in the namespace "default"',
            ),
            (
                headers("system:serviceaccount:default:x"),
                'pods is forbidden: User "alice" cannot impersonate-on:serviceaccount:list resource "pods" '
                'in API group "" in the namespace "default"',
            ),
            (
                headers("system:serviceaccount:default:x", "g"),
                'serviceaccounts "x" is forbidden: User "alice" cannot impersonate resource "serviceaccounts" '
                'in API group "" in the namespace "default"',
            ),
            (
                headers("system:node:n1"),
                'pods is forbidden: User "alice" cannot impersonate-on:arbitrary-node:list resource "pods" '
                'in API group "" in the namespace "default"',
            ),
        ],
    )
    def test_impersonation_refusals_are_kubernetes_own(
        self, acting: Impersonation, named: list[tuple[str, str]], told: str
    ) -> None:
        assert refused(acting, *named) == told

    def test_impersonation_refusal_names_the_path(self, acting: Impersonation) -> None:
        asked = Attributes(verb="get", path="/metrics")
        assert refused(acting, *headers("bob"), asked=asked) == (
            'forbidden: User "alice" cannot impersonate-on:user-info:get path "/metrics"'
        )

    def test_user_of_the_old_mode_gets_the_old_refusal(
        self, kept: FakeObjects, acting: Impersonation
    ) -> None:
        may(kept, rule("impersonate", "core", "users", "bob"))
        acting.impersonate(ALICE, headers("bob"), PODS)
        assert refused(acting, *headers("carol")) == (
            'users "carol" is forbidden: User "alice" cannot impersonate resource "users" in API group "" '
            "at the cluster scope"
        )

    def test_impersonation_cache_is_bounded(
        self, acting: Impersonation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(impersonation, "_CACHE_SIZE", 3)
        for index in range(9):
            acting.impersonate(User(name=f"u{index}", groups=("system:masters",)), headers("bob"), PODS)
        assert len(acting._last) <= 3
