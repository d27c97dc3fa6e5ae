"""The CEL environment of policies: variables, types and compilation."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kubecel import CompileError, Dialect, Environment, InstantiationError, Program, Type
from kubecel.environment import RULE_LIBRARIES
from kubecel.types import BOOL, DYN, INT, NULL, STRING, TIMESTAMP, Kind, list_of, map_of, struct
from kubehub.admission.cel_authorizer import AUTHORIZATION, AUTHORIZER, RESOURCE_CHECK

OBJECT: Final = "object"
OLD_OBJECT: Final = "oldObject"
REQUEST: Final = "request"
PARAMS: Final = "params"
NAMESPACE: Final = "namespaceObject"
ASKER: Final = "authorizer"
REQUEST_RESOURCE: Final = "authorizer.requestResource"
VARIABLES: Final = "variables"

COMPILATION: Final = "compilation failed: {}"
INSTANTIATION: Final = "program instantiation failed: {}"
OTHER_TYPE: Final = "must evaluate to {} but got {}"
OTHER_TYPES: Final = "must evaluate to one of [{}] but got {}"

TRUTH: Final = (BOOL,)
TEXT: Final = (STRING,)
TEXT_OR_NOTHING: Final = (STRING, NULL)
ANYTHING: Final = ()

COMPILE_WORK: Final = 200_000
"""Units of work to compile an expression, about 50 milliseconds (see ``kubecel.frame``)."""

_COMPOSED: Final = struct("kubernetes.variables")
_KIND: Final = struct("kubernetes.GroupVersionKind")
_RESOURCE: Final = struct("kubernetes.GroupVersionResource")
_USER: Final = struct("kubernetes.UserInfo")
_REQUEST: Final = struct("kubernetes.AdmissionRequest")
_NAMESPACE: Final = struct("kubernetes.Namespace")
_METADATA: Final = struct("kubernetes.NamespaceMetadata")
_SPEC: Final = struct("kubernetes.NamespaceSpec")
_STATUS: Final = struct("kubernetes.NamespaceStatus")
_CONDITION: Final = struct("kubernetes.NamespaceCondition")

_STRUCTS: Final[Mapping[str, Mapping[str, Type]]] = {
    _KIND.name: {"group": STRING, "version": STRING, "kind": STRING},
    _RESOURCE.name: {"group": STRING, "version": STRING, "resource": STRING},
    _USER.name: {
        "username": STRING,
        "uid": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
    },
    _REQUEST.name: {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
    _NAMESPACE.name: {"metadata": _METADATA, "spec": _SPEC, "status": _STATUS},
    _METADATA.name: {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": map_of(STRING, STRING),
        "annotations": map_of(STRING, STRING),
        "UID": STRING,
        "creationTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP,
        "generation": INT,
        "resourceVersion": STRING,
        "finalizers": list_of(STRING),
    },
    _SPEC.name: {"finalizers": list_of(STRING)},
    _STATUS.name: {"conditions": list_of(_CONDITION), "phase": STRING},
    _CONDITION.name: {
        "status": STRING,
        "type": STRING,
        "lastTransitionTime": TIMESTAMP,
        "message": STRING,
        "reason": STRING,
    },
}

_KEPT: Final = frozenset(
    {
        Kind.BOOL, Kind.BYTES, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.NULL, Kind.STRING, Kind.TIMESTAMP,
        Kind.UINT,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """``program`` is None if the expression can't be compiled; then ``fault`` is the reason."""

    text: str
    program: Program | None = None
    fault: str = ""
    internal: bool = False
    """The expression is valid but always fails."""


class Compiler:
    """Compiles the expressions of one policy. Variables are visible to expressions compiled after them."""

    def __init__(self, *, params: bool) -> None:
        self._plain: dict[str, Type] = {
            OBJECT: DYN,
            OLD_OBJECT: DYN,
            NAMESPACE: _NAMESPACE,
            REQUEST: _REQUEST,
        }
        if params:
            self._plain[PARAMS] = DYN
        self._composed: dict[str, Type] = {}

    def variable(self, name: str, text: str) -> Expression:
        expression, type_ = self._compile_checked(text, ANYTHING, composed=True, authorizer=True)
        self._composed[name] = _reduced(type_)
        return expression

    def compile(
        self, text: str, results: tuple[Type, ...], *, composed: bool = True, authorizer: bool = True
    ) -> Expression:
        """Compile an expression. ``results`` are the allowed types of its value."""
        return self._compile_checked(text, results, composed=composed, authorizer=authorizer)[0]

    def _compile_checked(
        self, text: str, results: tuple[Type, ...], *, composed: bool, authorizer: bool
    ) -> tuple[Expression, Type]:
        variables, structs = dict(self._plain), dict(_STRUCTS)
        if authorizer:
            variables |= {ASKER: AUTHORIZER, REQUEST_RESOURCE: RESOURCE_CHECK}
        if composed:
            variables[VARIABLES] = _COMPOSED
            structs[_COMPOSED.name] = self._composed
        try:
            environment = _base_environment().extended(variables=variables, structs=structs)
            program, checked = environment.compile_checked(text, work_limit=COMPILE_WORK)
        except InstantiationError as error:
            return Expression(text=text, fault=INSTANTIATION.format(error), internal=True), DYN
        except CompileError as error:
            return Expression(text=text, fault=COMPILATION.format(error)), DYN
        result = checked.result_type
        if results and result not in results:
            listed = " ".join(map(str, results))
            words = OTHER_TYPE if len(results) == 1 else OTHER_TYPES
            return Expression(text=text, fault=words.format(listed, result)), result
        return Expression(text=text, program=program), result


def _reduced(type_: Type) -> Type:
    """Return the type of a variable as other expressions see it."""
    if type_.kind in _KEPT:
        return type_
    if type_.kind is Kind.LIST:
        return list_of(_reduced(type_.params[0]))
    if type_.kind is Kind.MAP:
        return map_of(*map(_reduced, type_.params))
    return DYN


@lru_cache(maxsize=1)
def _base_environment() -> Environment:
    return Environment(
        variables={},
        libraries=(*RULE_LIBRARIES, AUTHORIZATION),
        dialect=Dialect(
            uniform=True, mixed_numbers=True, checked_constants=True, free_constants=True, two_variables=True
        ),
    )
