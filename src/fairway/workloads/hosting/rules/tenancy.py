"""Who a request belongs to, how urgent it is, and how much its tenant may hold, by a HostingPolicy.

Users who write requests choose their fields freely, and a namespace is the only part of a request that the hub vouches
for. So a tenant follows from the namespace, and a priority from a class that the policy permits for it. The fields of a
request only choose between what the policy grants.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.hosting_policy import HostingPolicySpec, HostingPriorityClass, HostingQuota, HostingTenant
from fairway.engine.workload import ResourceList, milli
from fairway.workloads.hosting.resources import CPU, HOSTED, MEMORY, MILLI, PODS, SLOTS
from fairway.workloads.hosting.rules.host_namespaces import matching
from kubewire.api.quantity import QuantityError

NOT_GRANTED: Final = (
    "spec.tenant: policy {policy} does not grant tenant {tenant} to namespace {namespace}; remove the field, and the "
    "tenant is {default}{others}"
)
NO_CLASS: Final = (
    "spec.priorityClass: policy {policy} has no priority class {name} for namespace {namespace}; {remedy}"
)
OTHER_TENANTS: Final = ", or write one of {names}"
USABLE_CLASSES: Final = "write one of {names}, or remove the field"
NO_USABLE_CLASS: Final = "remove the field: it has none"


class TenancyError(ValueError):
    """A request for a tenant or a priority that its policy does not grant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    policy: str
    tenants: tuple[HostingTenant, ...] = ()
    classes: tuple[HostingPriorityClass, ...] = ()
    quotas: Mapping[str, ResourceList]
    """By tenant, of those with a quota of their own, in milli-units of the limited dimensions."""
    quota: ResourceList
    """Of each other tenant."""

    @classmethod
    def of(cls, policy: str, spec: HostingPolicySpec) -> "Tenancy":
        return cls(
            policy=policy,
            tenants=spec.tenants,
            classes=spec.priorityClasses,
            quotas={
                tenant.name: _limits(tenant.quota) for tenant in spec.tenants if tenant.quota is not None
            },
            quota=_limits(spec.quota),
        )

    def granted(self, namespace: str) -> tuple[str, ...]:
        """Return the tenants that requests of a namespace may be of, the default one first."""
        listed = tuple(tenant.name for tenant in self.tenants if matching(tenant.namespaces, namespace))
        if listed:
            return listed
        # A namespace that has the name of a tenant, and is not listed for it, must not share its quota.
        is_taken = any(tenant.name == namespace for tenant in self.tenants)
        return (f"namespace:{namespace}" if is_taken else namespace,)

    def tenant_for(self, namespace: str, asked: str) -> str:
        """Return the tenant of a request; the default one if another one is asked for that is not granted."""
        granted = self.granted(namespace)
        return asked if asked in granted else granted[0]

    def check_tenant(self, namespace: str, asked: str) -> None:
        """Raises TenancyError."""
        default, *others = self.granted(namespace)
        if asked and asked not in (default, *others):
            more = OTHER_TENANTS.format(names=", ".join(others)) if others else ""
            names = {"policy": self.policy, "tenant": asked, "namespace": namespace}
            raise TenancyError(NOT_GRANTED.format(**names, default=default, others=more))

    def priority_of(self, request: HostedClusterRequest) -> int:
        """Return the priority of a request. Raises TenancyError.

        A number in the spec, which earlier versions used as it was, can only lower it: no user gets before others by a
        number of their own.
        """
        namespace, name = request.metadata.namespace, request.spec.priorityClass
        usable = [
            permitted
            for permitted in self.classes
            if not permitted.namespaces or matching(permitted.namespaces, namespace)
        ]
        value = next(
            (
                permitted.value
                for permitted in usable
                if (permitted.name == name if name else permitted.default)
            ),
            None,
        )
        if value is None and name:
            names = ", ".join(sorted(permitted.name for permitted in usable))
            remedy = USABLE_CLASSES.format(names=names) if usable else NO_USABLE_CLASS
            raise TenancyError(
                NO_CLASS.format(policy=self.policy, name=name, namespace=namespace, remedy=remedy)
            )
        number = request.spec.priority
        return min(number, value or 0) if number else value or 0

    def quota_of(self, tenant: str) -> ResourceList:
        """Return what a tenant may hold, in the dimensions that are limited."""
        return self.quotas.get(tenant, self.quota)


def _limits(quota: HostingQuota | None) -> ResourceList:
    """Return the limits in milli-units. An unreadable amount counts as 0: a typing error must not lift a quota."""
    if quota is None:
        return {}
    limits: dict[str, int] = {}
    for resource, count in ((HOSTED, quota.hostedClusters), (PODS, quota.pods), (SLOTS, quota.slots)):
        if count is not None:
            limits[resource] = max(0, count) * MILLI
    for resource, text in ((CPU, quota.cpu), (MEMORY, quota.memory)):
        if text != "":
            try:
                limits[resource] = max(0, milli(text))
            except QuantityError:
                limits[resource] = 0
    return limits
