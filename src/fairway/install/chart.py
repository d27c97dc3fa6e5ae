"""The Helm chart: the components of an installation as templates, with the same conditions.

Each template is an object of ``installation`` with placeholders where it depends on a setting, which become expressions
after the object is YAML. So no template is written by hand, and a chart has whatever ``fairway install`` has.

Two things differ on purpose. Helm deletes the objects of a chart with the release, so CRDs have the annotation that
keeps them, and with them all clusters and decisions. And Helm needs the namespace before the chart, so that the chart
creates it only on request.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairway import __version__
from fairway.controllers import settings
from fairway.controllers.placement.ocm_detection import NAMESPACE as OCM_NAMESPACE
from fairway.install.installation import (
    NAME,
    Component,
    Document,
    Installation,
    Mode,
    components,
    deployment,
    placed,
)
from kubewire.documents.writer import dump_yaml

KEEP: Final = {"helm.sh/resource-policy": "keep"}
"""Annotation of objects that stay when a release is uninstalled."""
DESCRIPTION: Final = (
    "Placement of workloads on many Kubernetes clusters, compatible with Open Cluster Management."
)
POD_SETTINGS: Final = ("imagePullSecrets", "nodeSelector", "priorityClassName", "tolerations")
"""Values that become fields of the pods if they are set."""
HEADER: Final = "{{- /* Written by deploy/generate.py from src/fairway/install. */ -}}\n"
_PLACEHOLDERS: Final[Mapping[str, str]] = {
    "placeholder-namespace": ".Release.Namespace | quote",
    "placeholder-ocm-namespace": ".Values.ocmNamespace | quote",
    "placeholder-image": 'include "fairway.image" . | quote',
    "placeholder-replicas": 'include "fairway.replicas" .',
    "placeholder-arguments": 'include "fairway.arguments" .',
    "placeholder-resources": ".Values.resources | toJson",
}
_PLACEHOLDER: Final = re.compile("|".join(sorted(_PLACEHOLDERS, key=len, reverse=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    name: str
    default: Any
    meaning: str
    schema: Mapping[str, Any]


def values() -> tuple[Value, ...]:
    """Return the values of the chart, with their documentation and their JSON schemas."""
    (container,) = deployment(Installation())["spec"]["template"]["spec"]["containers"]
    names = sorted(settings.ALL)
    namespace = {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
    flag = {"type": "boolean"}
    map_of_text = {"type": "object", "additionalProperties": {"type": "string"}}
    objects = {"type": "array", "items": {"type": "object"}}
    return (
        Value(
            name="mode",
            default=Mode.STANDALONE.value,
            meaning="What the hub has of OCM: nothing (`standalone`), all but its placement controller (`ocm`), or "
            "everything (`shadow`: Fairway compares decisions and writes nothing).",
            schema={"enum": [mode.value for mode in Mode]},
        ),
        Value(
            name="controllers",
            default=[],
            meaning="Controllers to run; +NAME adds one to those of the mode, -NAME removes one. Empty: those of the "
            f"mode. Known: {', '.join(names)}.",
            schema={
                "type": "array",
                "uniqueItems": True,
                "items": {"enum": [f"{sign}{name}" for sign in ("", "+", "-") for name in names]},
            },
        ),
        Value(
            name="image",
            default={"repository": NAME, "tag": ""},
            meaning="Image of the pods. An empty tag is the version of the chart; a tag may end with a digest.",
            schema={
                "type": "object",
                "additionalProperties": False,
                "required": ["repository"],
                "properties": {
                    "repository": {"type": "string", "minLength": 1},
                    "tag": {"type": "string"},
                },
            },
        ),
        Value(
            name="replicas",
            default=None,
            meaning="Number of pods, of which one leads. null: 2, or 1 for `shadow`.",
            schema={"type": ["integer", "null"], "minimum": 0, "maximum": 100},
        ),
        Value(
            name="crds",
            default=True,
            meaning="Include the CRDs. They stay when the release is uninstalled.",
            schema=flag,
        ),
        Value(
            name="monitoring",
            default=False,
            meaning="Include a ServiceMonitor, alerts and dashboards; needs the Prometheus operator.",
            schema=flag,
        ),
        Value(
            name="createNamespace",
            default=False,
            meaning="Include the namespace, which enforces the Pod Security Standard `restricted`. For "
            "`helm template`; with `helm install` use --create-namespace.",
            schema=flag,
        ),
        Value(
            name="ocmNamespace",
            default=OCM_NAMESPACE,
            meaning="Namespace of OCM's controllers.",
            schema=namespace,
        ),
        Value(
            name="extraArguments",
            default=[],
            meaning="Further arguments of `fairway run`, such as --workers=64.",
            schema={"type": "array", "items": {"type": "string"}},
        ),
        Value(
            name="resources",
            default=container["resources"],
            meaning="Requests and limits of the container; see docs/how-to/sizing.md.",
            schema={"type": "object"},
        ),
        Value(
            name="imagePullSecrets",
            default=[],
            meaning="Secrets with the credentials of the registry, such as {name: registry}.",
            schema=objects,
        ),
        Value(name="nodeSelector", default={}, meaning="Labels of nodes for the pods.", schema=map_of_text),
        Value(
            name="priorityClassName", default="", meaning="Priority of the pods.", schema={"type": "string"}
        ),
        Value(
            name="tolerations",
            default=[],
            meaning="Taints of nodes that the pods tolerate.",
            schema=objects,
        ),
    )


def files() -> dict[str, str]:
    """Return the contents of the chart by path."""
    return {
        "Chart.yaml": dump_yaml(_metadata(), sort_keys=False),
        "values.yaml": _values_text(),
        "values.schema.json": _json(_schema()),
        "README.md": _readme(),
        "templates/_settings.tpl": _settings(),
        "templates/NOTES.txt": NOTES,
        **dict(_templates()),
    }


def _metadata() -> Document:
    return {
        "apiVersion": "v2",
        "name": NAME,
        "description": DESCRIPTION,
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.30.0-0",
    }


def _schema() -> Document:
    given = values()
    shadow = {"properties": {"mode": {"const": Mode.SHADOW.value}}, "required": ["mode"]}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            # Helm adds this one itself.
            "global": {"type": "object"},
            **{value.name: {"description": value.meaning, **value.schema} for value in given},
        },
        # A shadow that runs other controllers would write.
        "if": shadow,
        "then": {"properties": {"controllers": {"maxItems": 0}}},
    }


def _values_text() -> str:
    return "\n".join(
        f"{_comment(value.meaning)}\n{dump_yaml({value.name: value.default}, sort_keys=False)}"
        for value in values()
    )


def _comment(text: str) -> str:
    lines = textwrap.wrap(text, width=110, break_on_hyphens=False)
    return "\n".join(f"# {line}" for line in lines)


def _readme() -> str:
    rows = [
        f"| `{value.name}` | `{msgspec.json.encode(value.default).decode()}` | {value.meaning} |"
        for value in values()
    ]
    return README.format(rows="\n".join(rows))


def _templates() -> Iterator[tuple[str, str]]:
    usual = Installation(
        namespace="placeholder-namespace",
        ocm_namespace="placeholder-ocm-namespace",
        image="placeholder-image",
    )
    workload = deployment(usual)
    workload["spec"]["replicas"] = "placeholder-replicas"
    pod = workload["spec"]["template"]["spec"]
    pod.update(dict.fromkeys(POD_SETTINGS, "placeholder-setting"))
    (container,) = pod["containers"]
    container["args"] = "placeholder-arguments"
    container["resources"] = "placeholder-resources"
    for component in components(workload):
        texts = [_template(placed(document, usual)) for document in component.documents]
        kind = component.documents[0]["kind"]
        name = component.documents[0]["metadata"]["name"]
        path = {
            "CustomResourceDefinition": f"crds-{'-'.join(sorted(component.modes))}",
            "Namespace": "account",
            "ClusterRole": name,
        }.get(kind, f"{name}-{kind.lower()}")
        yield f"templates/{path}.yaml", HEADER + _conditional("---\n".join(texts), component)


def _template(document: Document) -> str:
    if document["kind"] == "CustomResourceDefinition":
        document["metadata"]["annotations"] = {**document["metadata"].get("annotations", {}), **KEEP}
    # Alerts, dashboards and descriptions contain braces of their own.
    text = dump_yaml(document, sort_keys=False).replace("{{", '{{ "{{" }}')
    text = _PLACEHOLDER.sub(lambda match: f"{{{{ {_PLACEHOLDERS[match[0]]} }}}}", text)
    text = re.sub(
        r"^( +)(\w+): placeholder-setting$",
        r"\1{{- with .Values.\2 }}\n\1\2: {{ toJson . }}\n\1{{- end }}",
        text,
        flags=re.MULTILINE,
    )
    if document["kind"] == "Namespace":
        return f"{{{{- if .Values.createNamespace }}}}\n{text}{{{{- end }}}}\n"
    return text


def _conditional(text: str, component: Component) -> str:
    """Return the text under the condition ``Component.is_wanted``."""
    conditions = []
    if component.modes != frozenset(Mode):
        modes = " ".join(f'"{mode}"' for mode in sorted(component.modes))
        conditions.append(f"(has .Values.mode (list {modes}))")
    if component.controller:
        conditions.append(f'(has "{component.controller}" (include "fairway.controllers" . | splitList ","))')
    if component.option:
        conditions.append(f".Values.{component.option}")
    return f"{{{{- if and {' '.join(conditions)} }}}}\n{text}{{{{- end }}}}\n" if conditions else text


def _settings() -> str:
    """Return the named templates that compute what ``Installation`` computes."""
    usual = " ".join(f'"{name}"' for name in sorted(settings.DEFAULT))
    replicas = {mode: deployment(Installation(mode=mode))["spec"]["replicas"] for mode in Mode}
    return SETTINGS.format(
        header=HEADER,
        usual=usual,
        placement=settings.PLACEMENT,
        standalone=Mode.STANDALONE,
        shadow=Mode.SHADOW,
        replicas=replicas[Mode.STANDALONE],
        replicas_of_shadow=replicas[Mode.SHADOW],
        namespace=settings.NAMESPACE,
        ocm_namespace=OCM_NAMESPACE,
    )


def _json(document: Document) -> str:
    return json.dumps(document, indent=2) + "\n"


SETTINGS: Final = """\
{header}
{{{{- define "fairway.controllers" -}}}}
{{{{- $named := list -}}}}
{{{{- $added := list -}}}}
{{{{- $removed := list -}}}}
{{{{- range .Values.controllers -}}}}
{{{{- if hasPrefix "+" . -}}}}{{{{- $added = append $added (trimPrefix "+" .) -}}}}
{{{{- else if hasPrefix "-" . -}}}}{{{{- $removed = append $removed (trimPrefix "-" .) -}}}}
{{{{- else -}}}}{{{{- $named = append $named . -}}}}{{{{- end -}}}}
{{{{- end -}}}}
{{{{- if not $named -}}}}
{{{{- $named = ternary (list {usual}) (list "{placement}") (eq .Values.mode "{standalone}") -}}}}
{{{{- end -}}}}
{{{{- $chosen := concat $named $added | uniq | sortAlpha -}}}}
{{{{- range $removed -}}}}{{{{- $chosen = without $chosen . -}}}}{{{{- end -}}}}
{{{{- if not $chosen -}}}}{{{{- fail "controllers: none is left; name one" -}}}}{{{{- end -}}}}
{{{{- join "," $chosen -}}}}
{{{{- end }}}}

{{{{- define "fairway.arguments" -}}}}
{{{{- $arguments := list (printf "--controllers=%s" (include "fairway.controllers" .)) -}}}}
{{{{- if eq .Values.mode "{shadow}" -}}}}{{{{- $arguments = append $arguments "--shadow" -}}}}{{{{- end -}}}}
{{{{- if ne .Release.Namespace "{namespace}" -}}}}
{{{{- $arguments = append $arguments (printf "--lease-namespace=%s" .Release.Namespace) -}}}}
{{{{- end -}}}}
{{{{- if ne .Values.ocmNamespace "{ocm_namespace}" -}}}}
{{{{- $arguments = append $arguments (printf "--ocm-namespace=%s" .Values.ocmNamespace) -}}}}
{{{{- end -}}}}
{{{{- concat $arguments (list "--log-format=json") .Values.extraArguments | toJson -}}}}
{{{{- end }}}}

{{{{- define "fairway.replicas" -}}}}
{{{{- if kindIs "invalid" .Values.replicas -}}}}
{{{{- ternary {replicas_of_shadow} {replicas} (eq .Values.mode "{shadow}") -}}}}
{{{{- else -}}}}
{{{{- int .Values.replicas -}}}}
{{{{- end -}}}}
{{{{- end }}}}

{{{{- define "fairway.image" -}}}}
{{{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}}}
{{{{- end }}}}
"""
NOTES: Final = """\
Fairway runs as {{ .Values.mode }} with the controllers {{ include "fairway.controllers" . }}.

  kubectl -n {{ .Release.Namespace }} rollout status deployment/fairway
  kubectl -n {{ .Release.Namespace }} get leases
"""
README: Final = """\
# Fairway

Runs Fairway on a hub. Written by `deploy/generate.py` from `src/fairway/install`: for the same settings the chart has
the objects that `fairway install` prints. See docs/how-to/install.md for the modes, upgrades and uninstalling.

```sh
helm install fairway deploy/helm/fairway --namespace fairway-system --create-namespace
```

Objects have fixed names, so a hub has one release. The CRDs are templates, so `helm upgrade` updates them; they stay
after `helm uninstall`.

| value | default | meaning |
|---|---|---|
{rows}
"""
