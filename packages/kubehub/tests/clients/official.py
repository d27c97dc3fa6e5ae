"""The official Python client. Some of it has types, where every field of an answer may be missing; here it has none."""

from importlib import import_module
from typing import Any

client: Any = import_module("kubernetes.client")
config: Any = import_module("kubernetes.config")
dynamic: Any = import_module("kubernetes.dynamic")
informer: Any = import_module("kubernetes.informer")
watch: Any = import_module("kubernetes.watch")
aio: Any = import_module("kubernetes.aio")

EXCEPTIONS: Any = (client.ApiException, aio.client.ApiException)

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def config_map(name: str, *, labels: dict[str, str] | None = None, **data: str) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels=labels), data=data)


def pod(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Any:
    container = client.V1Container(name="main", image="image:1")
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels=labels),
        spec=client.V1PodSpec(containers=[container], **spec),
    )


def deployment(name: str, *, replicas: int = 1) -> Any:
    labels = {"app": name}
    template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=labels), spec=pod(name).spec)
    selector = client.V1LabelSelector(match_labels=labels)
    spec = client.V1DeploymentSpec(replicas=replicas, selector=selector, template=template)
    return client.V1Deployment(metadata=client.V1ObjectMeta(name=name), spec=spec)
