"""Render a template into the manifests of one cluster.

An undefined variable is an error here; OCM substitutes an empty string, and an agent starts with an incomplete flag.
Variables are substituted in the strings of a manifest, not in its JSON, so a value cannot change the structure.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from fairway.api.addon_config import AddOnDeploymentConfigSpec
from fairway.api.addon_template import CUSTOM_SIGNER, KUBE_CLIENT, AddOnTemplate
from fairway.controllers.addons import names
from fairway.controllers.addons.pods import Mount, PodSettings

Manifest = dict[str, Any]

UNKNOWN_VARIABLE: Final = (
    "manifest {manifest}, {path}: undefined variable {{{{{name}}}}}; defined are {known}"
)
NO_VARIABLE: Final = (
    "manifest {manifest}, {path}: {{{{{text}}}}} cannot be a variable: write {{{{NAME}}}}, in letters, digits "
    "and '_', without blanks"
)
NO_MANIFESTS: Final = "the template has no manifests"
NOT_AN_OBJECT: Final = "manifest {manifest}: {missing} is missing or not a string"
NOT_A_MAPPING: Final = "manifest {manifest}: {field} is not a mapping"
NOT_SUBJECTS: Final = "manifest {manifest}: subjects is not a list of mappings"
TWICE: Final = "manifest {manifest} is defined twice"
TWO_KEYS: Final = "manifest {manifest}, {path}: two keys become {key!r}"
LARGEST: Final = 1_000_000
TOO_LARGE: Final = (
    f"with the variables put in, the manifests are longer than {LARGEST} characters, more than a ManifestWork "
    "can hold"
)

CLUSTER_NAME: Final = "CLUSTER_NAME"
INSTALL_NAMESPACE: Final = "INSTALL_NAMESPACE"
HUB_KUBECONFIG: Final = "HUB_KUBECONFIG"

_VARIABLE: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SUBJECTS: Final = frozenset({"ClusterRoleBinding", "RoleBinding"})
_POD_KINDS: Final = {("apps", "Deployment"): "deployments", ("apps", "DaemonSet"): "daemonsets"}


class TemplateError(Exception):
    """An invalid template, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    manifests: tuple[Manifest, ...]
    hooks: tuple[Manifest, ...] = ()
    """Jobs and Pods that must succeed before the other objects are removed."""
    moved_to: str = field(default="")
    """The namespace set by the configuration; empty if that of the template applies."""


def render(
    template: AddOnTemplate,
    *,
    add_on: str,
    cluster: str,
    namespace: str,
    config: AddOnDeploymentConfigSpec | None = None,
) -> Rendered:
    """``namespace`` is the agent's, unless the configuration sets another. Raise TemplateError."""
    config = config or AddOnDeploymentConfigSpec(agentInstallNamespace="")
    moved_to = config.agentInstallNamespace or ""
    variables = _variables(template, cluster=cluster, namespace=moved_to or namespace, config=config)
    pods = PodSettings(
        environment={name: variables[name] for name in _BUILT_IN if name in variables},
        mounts=tuple(_mounts(template, add_on)),
        config=config,
        add_on=add_on,
    )
    filler = _Filler(variables)
    manifests = [filler.fill(manifest) for manifest in template.spec.agentSpec.workload.manifests]
    if not manifests:
        raise TemplateError(NO_MANIFESTS)
    if config.proxy.caBundle:
        manifests.append(_authorities(add_on, namespace=moved_to or namespace, bundle=config.proxy.caBundle))
    for manifest in manifests:
        if moved_to:
            _move(manifest, moved_to)
        plural = _POD_KINDS.get(group_kind(manifest))
        if plural is not None:
            pods.equip(manifest, plural=plural)
    _check_unique(manifests)
    hooks = tuple(manifest for manifest in manifests if is_hook(manifest))
    return Rendered(
        manifests=tuple(manifest for manifest in manifests if not is_hook(manifest)),
        hooks=hooks,
        moved_to=moved_to,
    )


def name_of(manifest: Mapping[str, Any]) -> str:
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{manifest.get('kind')} {place}{metadata.get('name')}"


def group_kind(manifest: Mapping[str, Any]) -> tuple[str, str]:
    group, slash, _ = manifest["apiVersion"].partition("/")
    return (group if slash else ""), manifest["kind"]


def is_hook(manifest: Mapping[str, Any]) -> bool:
    if manifest["kind"] not in ("Job", "Pod"):
        return False
    metadata = manifest["metadata"]
    return any(names.PRE_DELETE in (metadata.get(field) or {}) for field in ("labels", "annotations"))


_BUILT_IN: Final = (HUB_KUBECONFIG, CLUSTER_NAME, INSTALL_NAMESPACE)


def _variables(
    template: AddOnTemplate, *, cluster: str, namespace: str, config: AddOnDeploymentConfigSpec
) -> dict[str, str]:
    """The hub's variables, of which a configuration may override only the path of the kubeconfig."""
    variables = {HUB_KUBECONFIG: names.HUB_KUBECONFIG} if template.spec.registration else {}
    variables |= {variable.name: variable.value for variable in config.customizedVariables}
    return variables | {CLUSTER_NAME: cluster, INSTALL_NAMESPACE: namespace}


def _mounts(template: AddOnTemplate, add_on: str) -> Iterator[Mount]:
    for entry in template.spec.registration:
        if entry.type == KUBE_CLIENT:
            secret = names.hub_kubeconfig_secret(add_on)
            yield Mount(
                volume=names.HUB_KUBECONFIG_VOLUME,
                path=names.HUB_KUBECONFIG_FOLDER,
                source={"secret": {"secretName": secret}},
            )
        elif entry.type == CUSTOM_SIGNER and entry.customSigner is not None:
            signer = entry.customSigner.signerName
            secret = names.client_certificate_secret(add_on, signer)
            plain = signer.replace("/", "-")
            yield Mount(
                volume=f"cert-{plain.replace('.', '-')}",
                path=f"/managed/{plain}",
                source={"secret": {"secretName": secret}},
            )


class _Filler:
    """Substitutes variables in manifests. The total size is limited to that of a work, because a short template with
    many references to a long value becomes very large.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._left = LARGEST

    def fill(self, manifest: Mapping[str, Any]) -> Manifest:
        name = name_of(manifest)
        filled: Manifest = self._substitute(deepcopy(dict(manifest)), manifest=name, path="")
        metadata = filled.get("metadata")
        for missing, value in (
            ("apiVersion", filled.get("apiVersion")),
            ("kind", filled.get("kind")),
            ("metadata.name", metadata.get("name") if isinstance(metadata, dict) else None),
        ):
            if not isinstance(value, str) or not value:
                raise TemplateError(NOT_AN_OBJECT.format(manifest=name, missing=missing))
        _check_shape(filled)
        return filled

    def _substitute(self, value: Any, *, manifest: str, path: str) -> Any:
        if isinstance(value, dict):
            filled: dict[str, Any] = {}
            for key, child in value.items():
                filled_key = self._text(key, manifest=manifest, path=path)
                if filled_key in filled:
                    raise TemplateError(TWO_KEYS.format(manifest=manifest, path=path, key=filled_key))
                below = f"{path}.{key}".removeprefix(".")
                filled[filled_key] = self._substitute(child, manifest=manifest, path=below)
            return filled
        if isinstance(value, list | tuple):
            return [
                self._substitute(child, manifest=manifest, path=f"{path}[{index}]")
                for index, child in enumerate(value)
            ]
        return self._text(value, manifest=manifest, path=path) if isinstance(value, str) else value

    def _text(self, text: str, *, manifest: str, path: str) -> str:
        def put(reference: re.Match[str]) -> str:
            name = reference[1]
            if not _NAME.fullmatch(name):
                raise TemplateError(NO_VARIABLE.format(manifest=manifest, path=path, text=name))
            if name not in self._variables:
                known = ", ".join(sorted(self._variables))
                raise TemplateError(
                    UNKNOWN_VARIABLE.format(manifest=manifest, path=path, name=name, known=known)
                )
            self._spend(len(self._variables[name]))
            return self._variables[name]

        # Counted before the substitution, so that the text that is too large is never made.
        self._spend(len(text))
        return _VARIABLE.sub(put, text) if "{{" in text else text

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise TemplateError(TOO_LARGE)


def _check_shape(manifest: Manifest) -> None:
    """Check the parts that are used here; the managed cluster validates the rest."""
    metadata = manifest["metadata"]
    fields: list[tuple[str, Any]] = [
        (f"metadata.{name}", metadata.get(name)) for name in ("labels", "annotations")
    ]
    if group_kind(manifest) in _POD_KINDS:
        fields.append(("spec", manifest.get("spec")))
    for field_name, value in fields:
        if value is not None and not isinstance(value, dict):
            raise TemplateError(NOT_A_MAPPING.format(manifest=name_of(manifest), field=field_name))
    if not isinstance(metadata.get("namespace", ""), str | None):
        raise TemplateError(NOT_AN_OBJECT.format(manifest=name_of(manifest), missing="metadata.namespace"))
    subjects = manifest.get("subjects") if manifest["kind"] in _SUBJECTS else None
    if subjects is not None and not (
        isinstance(subjects, list) and all(isinstance(subject, dict) for subject in subjects)
    ):
        raise TemplateError(NOT_SUBJECTS.format(manifest=name_of(manifest)))


def _move(manifest: Manifest, namespace: str) -> None:
    """An object without a namespace is assumed to be cluster-scoped."""
    if manifest["metadata"].get("namespace"):
        manifest["metadata"]["namespace"] = namespace
    if manifest["kind"] == "Namespace":
        manifest["metadata"]["name"] = namespace
    if manifest["kind"] in _SUBJECTS:
        for subject in manifest.get("subjects") or ():
            if subject.get("kind") == "ServiceAccount":
                subject["namespace"] = namespace


def _authorities(add_on: str, *, namespace: str, bundle: bytes) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.proxy_ca(add_on), "namespace": namespace},
        "data": {names.PROXY_CA_FILE: bundle.decode(errors="replace")},
    }


def _check_unique(manifests: list[Manifest]) -> None:
    seen: set[tuple[tuple[str, str], str]] = set()
    for manifest in manifests:
        identity = group_kind(manifest), name_of(manifest)
        if identity in seen:
            raise TemplateError(TWICE.format(manifest=name_of(manifest)))
        seen.add(identity)
