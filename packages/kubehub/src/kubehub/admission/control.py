"""Admission control: evaluates policies for every write of a client.

Most writes match no policy, so the policies that an endpoint can match are computed once and cached until a policy,
a binding or a CRD changes. An ordinary write then costs one lookup.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubehub import status
from kubehub.admission.cel_environment import PARAMS
from kubehub.admission.matching import Endpoint, Labels, Match, Subject
from kubehub.admission.params import Misconfigured, Params
from kubehub.admission.policies import Denial, Policy, WorkBudget
from kubehub.admission.request import AdmissionRequest
from kubehub.object_reader import ObjectReader
from kubehub.rbac.authorizer import Authorizer
from kubehub.registry import Registry
from kubehub.resource import Document, Resource

GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = f"validatingadmissionpolicies.{GROUP}"
BINDINGS: Final = f"validatingadmissionpolicybindings.{GROUP}"

DENY: Final = "Deny"
WARN: Final = "Warn"
AUDIT: Final = "Audit"

DENIED: Final = "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}"
DENIED_UNBOUND: Final = "ValidatingAdmissionPolicy '{policy}' denied request: {message}"
WARNED: Final = (
    "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"
)
BAD_POLICY: Final = "failed to configure policy: {}"
BAD_BINDING: Final = "failed to configure binding: {}"
FAILURES: Final = "validation.policy.admission.k8s.io/validation_failure"
"""The audit annotation with failed validations."""

_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}
_INVALID: Final = ("Invalid", 422)
_MAX_FAILURES: Final = 50
_CACHE_SIZE: Final = 4096


@dataclass(frozen=True, slots=True)
class _Binding:
    name: str
    match: Match
    actions: tuple[str, ...]
    params: Mapping[str, Any] | None

    @classmethod
    def of(cls, document: Document) -> "_Binding":
        spec = document["spec"]
        return cls(
            document["metadata"]["name"],
            Match(spec.get("matchResources") or {}),
            tuple(spec.get("validationActions") or ()),
            spec.get("paramRef"),
        )


@dataclass(frozen=True, slots=True)
class _Hook:
    policy: Policy
    bindings: tuple[_Binding, ...]


@dataclass(slots=True)
class _Findings:
    refused: list[tuple[str, Denial]] = field(default_factory=list)
    failures: list[Document] = field(default_factory=list)
    annotations: dict[str, dict[str, None]] = field(default_factory=dict)
    budget: WorkBudget = field(default_factory=WorkBudget)


class Admission:
    def __init__(self, *, objects: ObjectReader, registry: Registry, authorizer: Authorizer) -> None:
        self._objects, self._registry, self._authorizer = objects, registry, authorizer
        self._params = Params(objects=objects, registry=registry)
        self._seen = (-1, -1, -1)
        self._compiled: dict[str, tuple[Document, Policy]] = {}
        self._hooks: tuple[_Hook, ...] = ()
        self._hooks_by_endpoint: dict[tuple[str, str, str, str, str], tuple[Endpoint, tuple[_Hook, ...]]] = {}

    def admit(self, request: AdmissionRequest) -> None:
        """Raise the refusal of the first policy that denies; other results become warnings and audit annotations."""
        endpoint, hooks = self._hooks_for(request)
        if endpoint is None or not hooks:
            return
        findings = _Findings()
        subject = self._subject(request)
        for hook in hooks:
            self._evaluate(hook, endpoint, subject, request, findings)
        if findings.failures:
            listed = msgspec.json.encode(findings.failures[:_MAX_FAILURES])
            request.annotations[FAILURES] = listed.decode()
        request.annotations.update((key, ", ".join(values)) for key, values in findings.annotations.items())
        if findings.refused:
            raise _refusal(request, *findings.refused[0])

    # Matching policies

    def _hooks_for(self, request: AdmissionRequest) -> tuple[Endpoint | None, tuple[_Hook, ...]]:
        self._refresh()
        if not self._hooks or request.resource.group == GROUP:
            return None, ()
        resource = request.resource
        key = (resource.group, resource.version, resource.plural, request.subresource, request.operation)
        known = self._hooks_by_endpoint.get(key)
        if known is None:
            if len(self._hooks_by_endpoint) >= _CACHE_SIZE:
                self._hooks_by_endpoint.clear()
            endpoint = Endpoint(
                equivalents=tuple(self._equivalents(resource)),
                subresource=request.subresource,
                operation=request.operation,
            )
            hooks = tuple(hook for hook in self._hooks if hook.policy.match.may_match(endpoint))
            known = self._hooks_by_endpoint[key] = (endpoint, hooks)
        return known

    def _equivalents(self, resource: Resource) -> Iterator[Resource]:
        yield resource
        for other in self._registry.resources:
            if other.key == resource.key and (other.group, other.version) != (
                resource.group,
                resource.version,
            ):
                yield other

    def _refresh(self) -> None:
        last_revision = self._objects.last_revision
        seen = (last_revision(POLICIES), last_revision(BINDINGS), self._registry.generation)
        if seen == self._seen:
            return
        documents = {document["metadata"]["name"]: document for document in self._objects.documents(POLICIES)}
        compiled: dict[str, tuple[Document, Policy]] = {}
        for name, document in documents.items():
            known = self._compiled.get(name)
            same = known is not None and known[0] == document["spec"]
            compiled[name] = known if known is not None and same else (document["spec"], Policy(document))
        bound: dict[str, list[_Binding]] = {}
        for document in self._objects.documents(BINDINGS):
            bound.setdefault(document["spec"].get("policyName", ""), []).append(_Binding.of(document))
        self._compiled = compiled
        self._hooks = tuple(
            _Hook(policy, tuple(sorted(bound[name], key=lambda binding: binding.name)))
            for name, (_, policy) in sorted(compiled.items())
            if name in bound
        )
        self._hooks_by_endpoint.clear()
        self._seen = seen

    # Evaluation

    def _subject(self, request: AdmissionRequest) -> Subject:
        namespace = request.namespace
        labels = tuple(
            (document.get("metadata") or {}).get("labels") or {}
            for document in (request.new, request.old)
            if document is not None
        )

        def find_labels() -> Labels | None:
            document = self._objects.document("namespaces", "", namespace)
            return None if document is None else document["metadata"].get("labels") or {}

        return Subject(name=request.name, namespace=namespace, labels=labels, namespace_labels=find_labels)

    def _evaluate(
        self,
        hook: _Hook,
        endpoint: Endpoint,
        subject: Subject,
        request: AdmissionRequest,
        findings: _Findings,
    ) -> None:
        policy = hook.policy
        equivalent = policy.match.equivalent(endpoint, subject)
        if equivalent is None:
            return
        try:
            self._params.resource_of(policy.params)
        except Misconfigured as fault:
            if not policy.ignores:
                denial = Denial(message=BAD_POLICY.format(fault))
                findings.refused.append((_denial_message(policy, None, denial), denial))
            return
        home = None
        if subject.namespace and request.resource.key != "namespaces":
            home = self._objects.document("namespaces", "", subject.namespace)
        for binding in hook.bindings:
            if binding.match.equivalent(endpoint, subject) is None:
                continue
            try:
                selected = self._params.select(policy.params, binding.params, namespace=subject.namespace)
            except Misconfigured as fault:
                if not policy.ignores:
                    denial = Denial(message=BAD_BINDING.format(fault))
                    findings.refused.append((_denial_message(policy, binding, denial), denial))
                continue
            inputs = request.inputs(equivalent, subject, authorizer=self._authorizer, home=home)
            for params in selected:
                self._record(policy, binding, inputs | {PARAMS: params}, request, findings)

    def _record(
        self,
        policy: Policy,
        binding: _Binding,
        inputs: Mapping[str, object],
        request: AdmissionRequest,
        findings: _Findings,
    ) -> None:
        verdict = policy.evaluate(inputs, findings.budget)
        for denial in verdict.denials:
            if DENY in binding.actions:
                findings.refused.append((_denial_message(policy, binding, denial), denial))
            if AUDIT in binding.actions:
                findings.failures.append(_failure_entry(policy, binding, denial))
            if WARN in binding.actions:
                request.warnings.append(
                    WARNED.format(policy=policy.name, binding=binding.name, message=denial.message)
                )
        for key, value in verdict.annotations:
            findings.annotations.setdefault(f"{policy.name}/{key}", {})[value] = None


def _denial_message(policy: Policy, binding: _Binding | None, denial: Denial) -> str:
    if binding is None:
        return DENIED_UNBOUND.format(policy=policy.name, message=denial.message)
    return DENIED.format(policy=policy.name, binding=binding.name, message=denial.message)


def _failure_entry(policy: Policy, binding: _Binding, denial: Denial) -> Document:
    return {
        "message": denial.message,
        "policy": policy.name,
        "binding": binding.name,
        "expressionIndex": denial.index,
        "validationActions": list(binding.actions),
    }


def _refusal(request: AdmissionRequest, message: str, denial: Denial) -> status.Refusal:
    resource = request.resource
    refused = status.forbidden(resource.group, resource.plural, request.name, message)
    refused.reason, refused.code = (
        (denial.reason, _CODES[denial.reason]) if denial.reason in _CODES else _INVALID
    )
    refused.details = {**(refused.details or {}), "causes": [{"message": message}]}
    return refused
