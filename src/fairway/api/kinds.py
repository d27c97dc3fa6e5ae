"""Decode documents to Structs by apiVersion and kind."""

import difflib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec
from msgspec import Struct, ValidationError, structs

from fairway.api.addon import ADD_ON_GROUP, ClusterManagementAddOn, ManagedClusterAddOn
from fairway.api.addon_config import AddOnDeploymentConfig
from fairway.api.addon_template import AddOnTemplate
from fairway.api.claim import ClusterClaim
from fairway.api.cluster import ManagedCluster
from fairway.api.clusterset import EXCLUSIVE_LABEL, ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.crd import GROUP
from fairway.api.decision import PlacementDecision
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.hosting_policy import HOSTING_VERSION, HostingPolicy
from fairway.api.machine_migration import MachineMigration
from fairway.api.placement import Placement
from fairway.api.placement_v1alpha1 import PlacementV1Alpha1
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.api.work import WORK_GROUP, AppliedManifestWork, ManifestWork
from kubewire.api.encoding import without_nulls
from kubewire.api.salvage import salvage

KubeObject = (
    ManagedCluster
    | ManagedClusterSet
    | ManagedClusterSetBinding
    | Placement
    | PlacementDecision
    | AddOnPlacementScore
    | ManagedClusterScore
    | ManifestWork
    | AppliedManifestWork
    | ClusterClaim
    | ClusterManagementAddOn
    | ManagedClusterAddOn
    | AddOnDeploymentConfig
    | AddOnTemplate
    | HostedClusterRequest
    | HostingPolicy
    | MachineMigration
)

KINDS: Final[Mapping[tuple[str, str], type[Struct]]] = MappingProxyType(
    {
        (f"{GROUP}/v1", "ManagedCluster"): ManagedCluster,
        (f"{GROUP}/v1beta2", "ManagedClusterSet"): ManagedClusterSet,
        (f"{GROUP}/v1beta1", "ManagedClusterSet"): ManagedClusterSet,
        (f"{GROUP}/v1beta2", "ManagedClusterSetBinding"): ManagedClusterSetBinding,
        (f"{GROUP}/v1beta1", "ManagedClusterSetBinding"): ManagedClusterSetBinding,
        (f"{GROUP}/v1beta1", "Placement"): Placement,
        (f"{GROUP}/v1alpha1", "Placement"): PlacementV1Alpha1,
        (f"{GROUP}/v1beta1", "PlacementDecision"): PlacementDecision,
        (f"{GROUP}/v1alpha1", "AddOnPlacementScore"): AddOnPlacementScore,
        (f"{GROUP}/v1alpha1", "ManagedClusterScore"): ManagedClusterScore,
        (f"{WORK_GROUP}/v1", "ManifestWork"): ManifestWork,
        (f"{WORK_GROUP}/v1", "AppliedManifestWork"): AppliedManifestWork,
        (f"{GROUP}/v1alpha1", "ClusterClaim"): ClusterClaim,
        (f"{ADD_ON_GROUP}/v1alpha1", "ClusterManagementAddOn"): ClusterManagementAddOn,
        (f"{ADD_ON_GROUP}/v1alpha1", "ManagedClusterAddOn"): ManagedClusterAddOn,
        (f"{ADD_ON_GROUP}/v1alpha1", "AddOnDeploymentConfig"): AddOnDeploymentConfig,
        (f"{ADD_ON_GROUP}/v1alpha1", "AddOnTemplate"): AddOnTemplate,
        (HOSTING_VERSION, "HostedClusterRequest"): HostedClusterRequest,
        (HOSTING_VERSION, "HostingPolicy"): HostingPolicy,
        (HOSTING_VERSION, "MachineMigration"): MachineMigration,
    }
)
"""Return the type of a version and kind. ``decode`` upgrades older versions."""

NO_KIND: Final = "names no kind"
UNKNOWN_KIND: Final = "is of an unknown kind"
WRONG_SHAPE: Final = "does not have the shape of its kind"

_LEGACY_SELECTOR: Final = "LegacyClusterSetLabel"  # v1beta1's word for ExclusiveClusterSetLabel


class DecodeError(ValueError):
    """A document cannot be decoded. ``path`` is empty for an error of the whole document."""

    def __init__(self, *, identity: str, path: str, message: str, remedy: str) -> None:
        self.identity, self.path, self.message, self.remedy = identity, path, message, remedy
        place = f" at {path}" if path else ""
        super().__init__(f"{identity}{place}: {message}; {remedy}")


def identity_of(document: Mapping[str, Any]) -> str:
    """Return the name of the document in messages: ``Placement ns1/p1``."""
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        metadata = {}
    name = metadata.get("name") or metadata.get("generateName") or "(no name)"
    namespace = metadata.get("namespace")
    return f"{document.get('kind') or 'document'} {f'{namespace}/' if namespace else ''}{name}"


def type_of(document: Mapping[str, Any]) -> type[Struct]:
    """Raise DecodeError with the nearest known kind."""
    version, kind = document.get("apiVersion"), document.get("kind")
    if isinstance(version, str) and isinstance(kind, str) and (known := KINDS.get((version, kind))):
        return known
    identity = identity_of(document)
    if not version or not kind:
        remedy = (
            'write both, like "apiVersion: cluster.open-cluster-management.io/v1beta1" and "kind: Placement"'
        )
        raise DecodeError(
            identity=identity, path="", message=f"{NO_KIND} (apiVersion and kind)", remedy=remedy
        )
    written = [f"{each_kind} ({each_version})" for each_version, each_kind in KINDS]
    near = difflib.get_close_matches(f"{kind} ({version})", written, n=1, cutoff=0.5)
    remedy = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(set(written)))}"
    raise DecodeError(
        identity=identity, path="", message=f"{UNKNOWN_KIND}: {kind} ({version})", remedy=remedy
    )


def decode(document: Mapping[str, Any], *, partly: bool = False) -> KubeObject:
    """Return the typed object; older versions are upgraded. Unknown fields are dropped, null counts as absent.

    With ``partly``, unreadable fields are dropped and reported by ``unreadable_fields``.
    """
    struct = type_of(document)
    try:
        if partly:
            return _upgrade(salvage(msgspec.json.encode(document), struct))
        return _upgrade(_convert(document, struct))
    except ValidationError as error:
        raise _decode_error(error, document) from None


def _convert(document: Mapping[str, Any], struct: type[Struct]) -> Struct:
    try:
        return msgspec.convert(document, struct)
    except ValidationError:
        return msgspec.convert(without_nulls(document), struct)


def _upgrade(obj: Struct) -> KubeObject:
    match obj:
        case PlacementV1Alpha1():
            return obj.upgrade()
        case ManagedClusterSet(apiVersion=version) if version != ManagedClusterSet().apiVersion:
            selector = obj.spec.clusterSelector
            if selector.selectorType == _LEGACY_SELECTOR:
                selector = structs.replace(selector, selectorType=EXCLUSIVE_LABEL)
            spec = structs.replace(obj.spec, clusterSelector=selector)
            return structs.replace(obj, apiVersion=ManagedClusterSet().apiVersion, spec=spec)
        case ManagedClusterSetBinding(apiVersion=version) if version != ManagedClusterSetBinding().apiVersion:
            return structs.replace(obj, apiVersion=ManagedClusterSetBinding().apiVersion)
        case _:
            return cast("KubeObject", obj)


def _decode_error(error: ValidationError, document: Mapping[str, Any]) -> DecodeError:
    message, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").removeprefix(".")
    if expected := re.match(r"Expected `(.+?)`, got `(.+?)`$", message):
        remedy = f"write {_ASKED.get(expected[1].removesuffix(' | null'), expected[1])} there"
    else:
        remedy = "compare it with the schema of the kind"
    return DecodeError(
        identity=identity_of(document), path=path, message=f"{WRONG_SHAPE}: {message}", remedy=remedy
    )


_ASKED: Final = {
    "str": "text (in quotes if it looks like a number)",
    "int": "a whole number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "datetime": 'a time like "2026-03-01T12:00:00Z"',
}
