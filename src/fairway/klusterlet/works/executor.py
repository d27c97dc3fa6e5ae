"""Check that the executor of a work may apply its objects.

The agent checks with SubjectAccessReviews before it applies with its own permissions. Whether the executor may grant a
permission is checked by a dry run that impersonates the executor.
"""

from dataclasses import replace
from typing import Any, Final

import msgspec
from msgspec import Struct

from fairway.api.work import SERVICE_ACCOUNT, ExecutorAccount, ManifestWork
from fairway.klusterlet.works.manifest import DesiredObject
from fairway.klusterlet.works.messages import ManifestError
from kubewire.client import AlreadyExists, Client, Forbidden, KubeError
from kubewire.client.credentials import Impersonation

REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
RETRY_SECONDS: Final = 60.0

NO_ACCOUNT: Final = "spec.executor has no service account"
NO_ACCOUNT_REMEDY: Final = (
    "write spec.executor.subject with type ServiceAccount and its namespace and name, or leave it out"
)
NOT_ALLOWED: Final = (
    "the executor {account} is not allowed to {verb} the resource {resource}, will try again in 1m0s"
)
NOT_ALLOWED_REMEDY: Final = "grant it to the service account on the managed cluster"
ESCALATION: Final = (
    "the executor {account} is not allowed to apply the resource {resource}, error: permission escalation: "
    "{error}"
)
ESCALATION_REMEDY: Final = (
    "grant the service account the rights of the role, and the agent the right to impersonate"
)
REVIEW_FAILED: Final = "cannot check the rights of executor {account}: {error}"
REVIEW_FAILED_REMEDY: Final = "allow the work agent to create subjectaccessreviews, or remove the executor"

_RBAC: Final = "rbac.authorization.k8s.io"
_RBAC_KINDS: Final = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})


class _Verdict(Struct, frozen=True):
    allowed: bool = False


class _Review(Struct, frozen=True):
    status: _Verdict = _Verdict()


class Executors:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def check(self, work: ManifestWork, wanted: DesiredObject) -> None:
        """Raises ManifestError. Without an executor, the agent's permissions apply."""
        executor = work.spec.executor
        if executor is None or executor.subject is None:
            return
        account = executor.subject.serviceAccount
        if executor.subject.type != SERVICE_ACCOUNT or account is None:
            raise ManifestError(NO_ACCOUNT, remedy=NO_ACCOUNT_REMEDY, final=True)
        verbs = ("create", "update", "patch", "get", *(("delete",) if wanted.owned else ()))
        for verb in verbs:
            await self._check_access(account, verb, wanted)
        target = wanted.target.resource
        if target.group == _RBAC and target.plural in _RBAC_KINDS:
            await self._dry_run(account, wanted)

    async def _check_access(self, account: ExecutorAccount, verb: str, wanted: DesiredObject) -> None:
        identity = wanted.identity
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user_of(account),
                "groups": list(groups_of(account)),
                "resourceAttributes": {
                    "group": identity.group,
                    "version": wanted.target.resource.version,
                    "resource": identity.resource,
                    "namespace": identity.namespace,
                    "name": identity.name,
                    "verb": verb,
                },
            },
        }
        try:
            response = await self._client.request("POST", REVIEWS, body=body, repeatable=True)
        except KubeError as error:
            if error.retryable:
                raise
            message = REVIEW_FAILED.format(account=_account_name(account), error=error)
            raise ManifestError(message, remedy=REVIEW_FAILED_REMEDY, retry=RETRY_SECONDS) from None
        if not msgspec.json.decode(response.body, type=_Review).status.allowed:
            message = NOT_ALLOWED.format(account=_account_name(account), verb=verb, resource=wanted.target)
            raise ManifestError(message, remedy=NOT_ALLOWED_REMEDY, retry=RETRY_SECONDS)

    async def _dry_run(self, account: ExecutorAccount, wanted: DesiredObject) -> None:
        impersonation = Impersonation(user=user_of(account), groups=groups_of(account))
        connection = replace(self._client.connection, impersonation=impersonation)
        body: dict[str, Any] = wanted.body
        async with Client(connection) as client:
            try:
                await client.request(
                    "POST", wanted.target.collection, query=(("dryRun", "All"),), body=body, repeatable=True
                )
            except AlreadyExists:
                return  #  escalation is checked before existence
            except Forbidden as error:
                message = ESCALATION.format(
                    account=_account_name(account), resource=wanted.target, error=error.message
                )
                raise ManifestError(message, remedy=ESCALATION_REMEDY, retry=RETRY_SECONDS) from None


def user_of(account: ExecutorAccount) -> str:
    return f"system:serviceaccount:{account.namespace}:{account.name}"


def groups_of(account: ExecutorAccount) -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}", "system:authenticated")


def _account_name(account: ExecutorAccount) -> str:
    return f"{account.namespace}/{account.name}"
