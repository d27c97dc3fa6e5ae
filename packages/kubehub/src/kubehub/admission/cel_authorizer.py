"""The CEL variable ``authorizer`` of policies and its functions.

authorizer.group('apps').resource('deployments').namespace('a').check('create').allowed()
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from kubecel import Function, Library, Overload, Type
from kubecel.errors import NO_SUCH_OVERLOAD, Failure
from kubecel.scalars import Opaque
from kubecel.types import BOOL, STRING, struct
from kubehub.authn.service_account_tokens import ACCOUNTS, username
from kubehub.rbac.authorizer import Attributes, Authorizer, Decision
from kubehub.user import User
from kubewire.api import naming

AUTHORIZER: Final = struct("kubernetes.authorization.Authorizer")
PATH_CHECK: Final = struct("kubernetes.authorization.PathCheck")
GROUP_CHECK: Final = struct("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK: Final = struct("kubernetes.authorization.ResourceCheck")
DECISION: Final = struct("kubernetes.authorization.Decision")

NO_PATH: Final = "path must not be empty"
NO_RESOURCE: Final = "resource must not be empty"
BAD_ACCOUNT: Final = "Invalid service account name"
BAD_NAMESPACE: Final = "Invalid service account namespace"

CHECK_COST: Final = 350_000
"""The cost of a check, as if it called a webhook."""


class _Receiver(Opaque):
    """CEL values that have functions and no fields."""

    __slots__ = ()

    def equals(self, other: object) -> bool:
        if type(other) is not type(self):
            raise Failure(NO_SUCH_OVERLOAD)
        return self == other


@dataclass(frozen=True, slots=True)
class AuthorizerValue(_Receiver):
    """The user whose permissions are checked."""

    cel_type = AUTHORIZER
    authorizer: Authorizer
    user: User

    def path(self, path: str) -> "PathCheck":
        if not path.strip():
            raise Failure(NO_PATH)
        return PathCheck(self, path)

    def group(self, group: str) -> "GroupCheck":
        return GroupCheck(self, group)

    def account(self, namespace: str, name: str) -> "AuthorizerValue":
        if naming.subdomain(name):
            raise Failure(BAD_ACCOUNT)
        if naming.label(namespace):
            raise Failure(BAD_NAMESPACE)
        groups = (ACCOUNTS, f"{ACCOUNTS}:{namespace}")
        return replace(self, user=User(name=username(namespace, name), groups=groups))

    def decide(self, asked: Attributes) -> "CheckResult":
        return CheckResult(self.authorizer.decide(self.user, asked))


@dataclass(frozen=True, slots=True)
class PathCheck(_Receiver):
    cel_type = PATH_CHECK
    asker: AuthorizerValue
    path: str

    def check(self, verb: str) -> "CheckResult":
        return self.asker.decide(Attributes(verb=verb, path=self.path))


@dataclass(frozen=True, slots=True)
class GroupCheck(_Receiver):
    cel_type = GROUP_CHECK
    asker: AuthorizerValue
    group: str

    def resource(self, resource: str) -> "ResourceCheck":
        if not resource.strip():
            raise Failure(NO_RESOURCE)
        return ResourceCheck(self.asker, Attributes(verb="", group=self.group, resource=resource))


@dataclass(frozen=True, slots=True)
class ResourceCheck(_Receiver):
    cel_type = RESOURCE_CHECK
    asker: AuthorizerValue
    asked: Attributes

    def with_attributes(self, **more: str) -> "ResourceCheck":
        return replace(self, asked=msgspec.structs.replace(self.asked, **more))

    def check(self, verb: str) -> "CheckResult":
        return self.asker.decide(self.with_attributes(verb=verb).asked)


@dataclass(frozen=True, slots=True)
class CheckResult(_Receiver):
    cel_type = DECISION
    decision: Decision


def _setter(part: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    return lambda check, value: check.with_attributes(**{part: value})


def _check_cost(_args: tuple[Any, ...], _result: object) -> int:
    return CHECK_COST


def _function(
    name: str, id_: str, call: Callable[..., object], *params: Type, result: Type, **more: Any
) -> Function:
    return Function(name, (Overload(id_, params, result, call, member=True, **more),))


AUTHORIZATION: Final = Library(
    "kubernetes.authz",
    functions=(
        _function("path", "authorizer_path", AuthorizerValue.path, AUTHORIZER, STRING, result=PATH_CHECK),
        _function("group", "authorizer_group", AuthorizerValue.group, AUTHORIZER, STRING, result=GROUP_CHECK),
        _function(
            "serviceAccount",
            "authorizer_serviceaccount",
            AuthorizerValue.account,
            AUTHORIZER,
            STRING,
            STRING,
            result=AUTHORIZER,
            variadic=True,
        ),
        _function(
            "resource", "groupcheck_resource", GroupCheck.resource, GROUP_CHECK, STRING, result=RESOURCE_CHECK
        ),
        *(
            _function(
                part, f"resourcecheck_{part}", _setter(part), RESOURCE_CHECK, STRING, result=RESOURCE_CHECK
            )
            for part in ("subresource", "namespace", "name")
        ),
        # RBAC ignores selectors, so a check with one is a check of the whole resource.
        *(
            _function(
                part,
                f"authorizer_{part.lower()}",
                lambda check, _: check,
                RESOURCE_CHECK,
                STRING,
                result=RESOURCE_CHECK,
            )
            for part in ("fieldSelector", "labelSelector")
        ),
        Function(
            "check",
            (
                Overload("pathcheck_check", (PATH_CHECK, STRING), DECISION, PathCheck.check, member=True),
                Overload(
                    "resourcecheck_check",
                    (RESOURCE_CHECK, STRING),
                    DECISION,
                    ResourceCheck.check,
                    member=True,
                ),
            ),
            cost=_check_cost,
        ),
        _function("allowed", "decision_allowed", lambda a: a.decision.allowed, DECISION, result=BOOL),
        _function("reason", "decision_reason", lambda a: a.decision.reason, DECISION, result=STRING),
        # RBAC always reaches a decision, so there is never an error.
        _function("errored", "decision_errored", lambda _: False, DECISION, result=BOOL),
        _function("error", "decision_error", lambda _: "", DECISION, result=STRING),
    ),
    types=(AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION),
)
