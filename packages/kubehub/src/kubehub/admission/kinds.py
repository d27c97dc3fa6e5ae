"""Hooks of admission policies and their bindings: validation, and permission to read the parameters."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubehub import status
from kubehub.admission.cel_environment import TEXT, TEXT_OR_NOTHING, TRUTH, Compiler, Expression
from kubehub.admission.control import POLICIES
from kubehub.admission.matching import ALL, EQUIVALENT
from kubehub.kind import RequiresResourceVersion
from kubehub.object_reader import ObjectReader
from kubehub.rbac.authorizer import Attributes, Authorizer
from kubehub.rbac.roles import selector_faults
from kubehub.registry import Registry
from kubehub.resource import Document
from kubehub.status import Cause
from kubehub.user import User
from kubehub.write_request import WriteRequest
from kubewire.api import naming

NOTHING_TO_DO: Final = "validations or auditAnnotations must contain at least one item"
NO_EXPRESSION: Final = "expression is not specified"
NO_VALUE: Final = "valueExpression is not specified"
NO_NAME: Final = "name is not specified"
NO_IDENTIFIER: Final = "must be a valid CEL identifier"
NOT_BLANK: Final = "must be non-empty if specified"
NO_BREAKS: Final = "must not contain line breaks"
NAME_OR_SELECTOR: Final = "name and selector are mutually exclusive"
REFERENCE_NEEDED: Final = "one of name or selector must be specified"
DENY_AND_WARN: Final = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and"
    " headers serves no purpose)"
)
ACTION_NEEDED: Final = "at least one validation action is required"
ALONE: Final = "if '*' is present, must not specify other {}"
UNREADABLE_KIND: Final = (
    'user {user} must have "get" permission on all objects of the referenced paramKind (kind={kind},'
    " apiVersion={version})"
)
UNREADABLE_PARAMS: Final = (
    'user {user} does not have "{verb}" permission on the object referenced by paramRef'
)

MAX_CONDITIONS: Final = 64
MAX_ANNOTATIONS: Final = 20
REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
NOT_FOUND_ACTIONS: Final = ("Deny", "Allow")

_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED: Final = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip


class _Registration(RequiresResourceVersion):
    has_generation = True
    required_fields_non_empty = False

    def __init__(self, *, authorizer: Authorizer, registry: Registry, objects: ObjectReader) -> None:
        self._authorizer, self._registry, self._objects = authorizer, registry, objects

    def _may_read(self, user: User, kind: Mapping[str, str] | None, **asked: str) -> bool:
        """Return whether the user may read these parameters; for an unknown kind, everything in its group."""
        group = resource = ALL
        if kind is not None:
            group, _, version = kind.get("apiVersion", "").rpartition("/")
            known = self._registry.of_kind(group, version, kind.get("kind", ""))
            resource = known.plural if known is not None else ALL
        attributes = Attributes(group=group, resource=resource, **asked)
        return self._authorizer.decide(user, attributes).allowed


class Policy(_Registration):
    def default(self, document: Document) -> None:
        spec = document.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        _default_match(spec.get("matchConstraints"))

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        if old is None:
            document["status"] = {}

    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        if request.subresource:
            return ()
        spec = document.get("spec") or {}
        causes = [*_policy_causes(document["metadata"].get("name", ""), spec)]
        kind, before = spec.get("paramKind"), (old or {}).get("spec") or {}
        if causes or kind is None or before.get("paramKind") == kind:
            return causes
        if not self._may_read(request.user, kind, verb="get", name=ALL, namespace=ALL):
            message = UNREADABLE_KIND.format(
                user=_format_user(request.user), kind=kind.get("kind", ""), version=kind.get("apiVersion", "")
            )
            causes.append(status.forbidden_field("spec.paramKind", message))
        return causes


class PolicyBinding(_Registration):
    def default(self, document: Document) -> None:
        _default_match(document.setdefault("spec", {}).get("matchResources"))

    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        spec = document.get("spec") or {}
        causes = [*_binding_causes(spec)]
        reference, before = spec.get("paramRef"), (old or {}).get("spec") or {}
        known = before.get("paramRef") == reference and before.get("policyName") == spec.get("policyName")
        if causes or reference is None or known:
            return causes
        policy = self._objects.document(POLICIES, "", spec.get("policyName", ""))
        kind = None if policy is None else policy["spec"].get("paramKind")
        name, place = reference.get("name", ""), reference.get("namespace", "")
        verb = "get" if name else "list"
        if not self._may_read(request.user, kind, verb=verb, name=name, namespace=place):
            message = UNREADABLE_PARAMS.format(user=_format_user(request.user), verb=verb)
            causes.append(status.forbidden_field("spec.paramRef", message))
        return causes


def _default_match(match: Document | None) -> None:
    if match is None:
        return
    match.setdefault("matchPolicy", EQUIVALENT)
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for rule in (*(match.get("resourceRules") or ()), *(match.get("excludeResourceRules") or ())):
        rule.setdefault("scope", ALL)


def _format_user(user: User) -> str:
    """Print as Go does."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"


# Policies


def _policy_causes(name: str, spec: Document) -> Iterator[Cause]:
    kind = spec.get("paramKind")
    if kind is not None:
        yield from _kind_causes(kind)
    match = spec.get("matchConstraints")
    if match is None:
        yield status.required("spec.matchConstraints")
    else:
        yield from _match_causes(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            yield status.required("spec.matchConstraints.resourceRules")
    compiler = Compiler(params=kind is not None)
    yield from _condition_causes(compiler, spec.get("matchConditions") or ())
    variables, validations = spec.get("variables") or (), spec.get("validations") or ()
    for index, variable in enumerate(variables):
        yield from _variable_causes(compiler, variable, f"spec.variables[{index}]")
    annotations = spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        yield status.required("spec.validations", NOTHING_TO_DO)
        yield status.required("spec.auditAnnotations", NOTHING_TO_DO)
    composed = bool(variables)
    for index, validation in enumerate(validations):
        yield from _validation_causes(compiler, validation, f"spec.validations[{index}]", composed=composed)
    yield from _annotation_causes(compiler, name, annotations, composed=composed)


def _kind_causes(kind: Mapping[str, str]) -> Iterator[Cause]:
    version, name = kind.get("apiVersion", ""), kind.get("kind", "")
    place = "spec.paramKind.apiVersion"
    group, _, short = version.rpartition("/")
    if not version:
        yield status.required(place)
    elif "/" in group:
        yield status.invalid_value(place, version, f"unexpected GroupVersion string: {version}")
    else:
        if group and (faults := naming.subdomain(group)):
            yield status.invalid_value(place, group, ",".join(faults))
        if not short:
            yield status.invalid_value(place, version, "version must be specified")
        elif faults := naming.dns1035_label(short):
            yield status.invalid_value(place, short, ",".join(faults))
    if not name:
        yield status.required("spec.paramKind.kind")
    elif faults := naming.dns1035_label(name.lower()):
        message = f"may have mixed case, but should otherwise match: {','.join(faults)}"
        yield status.invalid_value("spec.paramKind.kind", name, message)


def _condition_causes(compiler: Compiler, conditions: Sequence[Document]) -> Iterator[Cause]:
    place = "spec.matchConditions"
    if len(conditions) > MAX_CONDITIONS:
        yield status.too_many(place, len(conditions), MAX_CONDITIONS)
    for index, condition in enumerate(conditions):
        here, text, name = (
            f"{place}[{index}]",
            condition.get("expression", "").strip(),
            condition.get("name", ""),
        )
        if not text:
            yield status.required(f"{here}.expression")
        else:
            yield from _faults(compiler.compile(text, TRUTH, composed=False), f"{here}.expression")
        if not name:
            yield status.required(f"{here}.name")
        else:
            yield from _qualified(name, f"{here}.name")


def _variable_causes(compiler: Compiler, variable: Document, place: str) -> Iterator[Cause]:
    name, text = variable.get("name", ""), variable.get("expression", "")
    if not name.strip():
        yield status.required(f"{place}.name", NO_NAME)
    elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        yield status.invalid_value(f"{place}.name", name, NO_IDENTIFIER)
    if not text.strip():
        yield status.required(f"{place}.expression", NO_EXPRESSION)
    else:
        yield from _faults(compiler.variable(name, text), f"{place}.expression")


def _validation_causes(
    compiler: Compiler, validation: Document, place: str, *, composed: bool
) -> Iterator[Cause]:
    text, message = validation.get("expression", ""), validation.get("message", "")
    if not text.strip():
        yield status.required(f"{place}.expression", NO_EXPRESSION)
    else:
        yield from _faults(compiler.compile(text, TRUTH, composed=composed), f"{place}.expression")
    spoken = validation.get("messageExpression", "")
    if spoken and not spoken.strip():
        yield status.invalid_value(f"{place}.messageExpression", spoken, NOT_BLANK)
    elif spoken:
        made = compiler.compile(spoken, TEXT, composed=composed, authorizer=False)
        yield from _faults(made, f"{place}.messageExpression")
    if message and not message.strip():
        yield status.invalid_value(f"{place}.message", message, NOT_BLANK)
    elif "\n" in message.strip() or "\r" in message.strip():
        yield status.invalid_value(f"{place}.message", message, NO_BREAKS)
    reason = validation.get("reason")
    if reason is not None and reason not in REASONS:
        yield status.not_supported(f"{place}.reason", reason, REASONS)


def _annotation_causes(
    compiler: Compiler, name: str, annotations: Sequence[Document], *, composed: bool
) -> Iterator[Cause]:
    place, seen = "spec.auditAnnotations", set[str]()
    if len(annotations) > MAX_ANNOTATIONS:
        message = f"must not have more than {MAX_ANNOTATIONS} auditAnnotations"
        yield status.invalid_value(place, list(annotations), message)
    for index, annotation in enumerate(annotations):
        here, key, text = (
            f"{place}[{index}]",
            annotation.get("key", ""),
            annotation.get("valueExpression", "").strip(),
        )
        yield from _qualified(f"{name}/{key}", f"{here}.key")
        if not text:
            yield status.required(f"{here}.valueExpression", NO_VALUE)
        else:
            made = compiler.compile(text, TEXT_OR_NOTHING, composed=composed)
            yield from _faults(made, f"{here}.valueExpression")
        if key in seen:
            yield status.duplicate(f"{here}.key", key)
        seen.add(key)


def _faults(expression: Expression, place: str) -> Iterator[Cause]:
    if expression.internal:
        yield Cause(field=place, reason="InternalError", message=f"Internal error: {expression.fault}")
    elif expression.fault:
        yield status.invalid_value(place, expression.text, expression.fault)


def _qualified(name: str, place: str) -> Iterator[Cause]:
    for fault in naming.label_key(name):
        yield status.invalid_value(place, name, fault)


# Bindings


def _binding_causes(spec: Document) -> Iterator[Cause]:
    name = spec.get("policyName", "")
    if not name:
        yield status.required("spec.policyName")
    for fault in naming.subdomain(name) if name else ():
        yield status.invalid_value("spec.policyName", name, fault)
    if (reference := spec.get("paramRef")) is not None:
        yield from _reference_causes(reference, "spec.paramRef")
    if (match := spec.get("matchResources")) is not None:
        yield from _match_causes(match, "spec.matchResources")
    actions = spec.get("validationActions") or ()
    if "Deny" in actions and "Warn" in actions:
        yield status.invalid_value("spec.validationActions", list(actions), DENY_AND_WARN)
    if not actions:
        yield status.required("spec.validationActions", ACTION_NEEDED)


def _reference_causes(reference: Document, place: str) -> Iterator[Cause]:
    name, selector = reference.get("name", ""), reference.get("selector")
    for fault in naming.path_segment(name) if name else ():
        yield status.invalid_value(f"{place}.name", name, fault)
    if name and selector is not None:
        yield status.forbidden_field(f"{place}.name", NAME_OR_SELECTOR)
    if selector is not None:
        yield from selector_faults(selector, f"{place}.selector")
        if name:
            yield status.forbidden_field(f"{place}.selector", NAME_OR_SELECTOR)
    elif not name:
        yield status.required(place, REFERENCE_NEEDED)
    action = reference.get("parameterNotFoundAction")
    if not action:
        yield status.required(f"{place}.parameterNotFoundAction")
    elif action not in NOT_FOUND_ACTIONS:
        yield status.not_supported(f"{place}.parameterNotFoundAction", action, NOT_FOUND_ACTIONS)


# Match rules


def _match_causes(match: Document, place: str) -> Iterator[Cause]:
    for name in ("namespaceSelector", "objectSelector"):
        yield from selector_faults(match.get(name) or {}, f"{place}.{name}")
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(name) or ()):
            yield from _rule_causes(rule, f"{place}.{name}[{index}]")


def _rule_causes(rule: Mapping[str, Any], place: str) -> Iterator[Cause]:
    seen = set[str]()
    for index, name in enumerate(rule.get("resourceNames") or ()):
        here = f"{place}.resourceNames[{index}]"
        for fault in naming.path_segment(name):
            yield status.invalid_value(here, name, fault)
        if name in seen:
            yield status.duplicate(here, name)
        seen.add(name)
    for part, noun in (
        ("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions"),
    ):  # fmt: skip
        values = list(rule.get(part) or ())
        if not values:
            yield status.required(f"{place}.{part}")
        if len(values) > 1 and ALL in values:
            yield status.invalid_value(f"{place}.{part}", values, ALONE.format(noun))
        for index, value in enumerate(values) if part == "apiVersions" else ():
            if not value:
                yield status.required(f"{place}.{part}[{index}]")
    yield from _resource_causes(list(rule.get("resources") or ()), f"{place}.resources")


def _resource_causes(resources: list[str], place: str) -> Iterator[Cause]:
    if not resources:
        yield status.required(place)
    whole, parts, plain = set[str](), set[str](), False
    for index, entry in enumerate(resources):
        here = f"{place}[{index}]"
        if not entry:
            yield status.required(here)
            continue
        resource, slash, part = entry.partition("/")
        if not slash:
            plain = entry != ALL
            continue
        if resource in whole:
            yield status.invalid_value(here, entry, f"if '{resource}/*' is present, must not specify {entry}")
        if part in parts:
            yield status.invalid_value(here, entry, f"if '*/{part}' is present, must not specify {entry}")
        if part == ALL:
            whole.add(resource)
        if resource == ALL:
            parts.add(part)
    if len(resources) > 1 and "*/*" in resources:
        yield status.invalid_value(place, resources, "if '*/*' is present, must not specify other resources")
    if ALL in resources and plain:
        message = "if '*' is present, must not specify other resources without subresources"
        yield status.invalid_value(place, resources, message)
