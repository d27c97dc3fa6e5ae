"""Conditions that Fairway writes, by object and type, with the meaning of each reason.

Types and reasons are the constants of the code. A constant of a module in COMPLETE that is missing here is an error.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Final

from fairway.api import work
from fairway.api.cluster import CONDITION_ACCEPTED
from fairway.controllers.acceptance import conditions as acceptance
from fairway.controllers.addons import conditions as addons
from fairway.controllers.bridge import plan as bridge
from fairway.controllers.clustersets import conditions as clustersets
from fairway.controllers.recovery import conditions as recovery
from fairway.controllers.recovery import decision as recovery_decision
from fairway.controllers.scores import silence_marker
from fairway.klusterlet import addon_health, renewal
from fairway.klusterlet import names as klusterlet
from fairway.klusterlet.works import status as works
from fairway.placement import conditions as placement
from fairway.placement import unscored
from fairway.providers import assessment, publication, sink

Reasons = Mapping[str, str]

CONDITIONS: Final[Mapping[tuple[str, str], Reasons]] = {
    ("Placement", placement.SATISFIED): {
        placement.ALL_SCHEDULED: "All requested clusters are selected.",
        placement.NOT_ALL_SCHEDULED: "Fewer clusters are selected than requested, or computing the decision failed.",
        placement.NONE_MATCHED: "No cluster passed the filters.",
        placement.SETS_EMPTY: "The bound cluster sets have no members.",
        placement.NO_INTERSECTION: "None of the sets in spec.clusterSets is bound to the namespace.",
        placement.NO_BINDINGS: "The namespace has no ManagedClusterSetBinding for an existing set.",
    },
    ("Placement", placement.MISCONFIGURED): {
        placement.CONFIGURED: "The specification is valid; the message lists annotations that have no effect.",
        placement.REFUSED: "The specification is invalid; the message names the field.",
    },
    ("Placement", unscored.UNSCORED): {
        unscored.NOT_PUBLISHED: "No candidate has a score that the Placement ranks by.",
    },
    ("ManagedClusterSet", clustersets.EMPTY): {
        clustersets.SELECTED: "The set has members.",
        clustersets.NONE_MATCHED: "The set has no members.",
        clustersets.INVALID: "The selector is invalid.",
    },
    ("ManagedClusterSetBinding", clustersets.BOUND): {
        clustersets.SET_BOUND: "The set exists.",
        clustersets.SET_NOT_FOUND: "The set does not exist.",
    },
    ("ManagedCluster", CONDITION_ACCEPTED): {
        acceptance.ADMIN_ACCEPTED: "An administrator accepted the cluster, and its rights are granted.",
        acceptance.ADMIN_DENIED: "An administrator withdrew the acceptance.",
        acceptance.NAME_REFUSED: "The name cannot be used for a namespace.",
        acceptance.NAMESPACE_TAKEN: "The namespace of that name belongs to another owner.",
        acceptance.NAMESPACE_ENDING: "The namespace of that name is being deleted.",
        acceptance.FAILED: "The rights could not be granted; the message has the reason.",
    },
    ("ManagedCluster", klusterlet.ROTATED): {
        renewal.UPDATED: "The agent has renewed its certificate.",
        renewal.UPDATE_FAILED: "The agent could not renew its certificate.",
    },
    ("ManagedCluster", recovery.HEALTHY): {
        recovery_decision.LOW: "Tainted because health stayed low.",
        recovery_decision.MISSING: "Tainted because health is missing, with `missing: unhealthy`.",
        recovery_decision.OVER_BUDGET: "Unhealthy, but the budget of tainted clusters is exhausted.",
        recovery_decision.SUSPECT: "Unhealthy, but so many clusters are that the health provider has probably failed.",
        recovery_decision.RECOVERED: "Healthy for long enough; the taint was removed.",
        recovery.RELIEVED: "Was held back, and is no longer unhealthy.",
        recovery.NOT_KNOWN: "Was held back, and its health is no longer known.",
        recovery.RELEASED: "Another client removed the taint; the dwell time restarts.",
        recovery_decision.EXEMPT: "Excluded by annotation.",
    },
    ("ManagedClusterAddOn", addons.CONFIGURED): {
        addons.CONFIGURATIONS_CONFIGURED: "All configurations exist.",
        addons.CONFIGURATION_NOT_FOUND: "A template or configuration does not exist.",
        addons.CONFIGURATION_UNSUPPORTED: "A configuration is of an unsupported kind, or belongs to another add-on.",
        addons.TEMPLATE_INVALID: "The template has an undefined variable, or a manifest that is not an object.",
    },
    ("ManagedClusterAddOn", addons.MANIFEST_APPLIED): {
        addons.APPLIED: "The cluster has applied the manifests.",
        addons.NOT_APPLIED: "The cluster rejected a manifest.",
        addons.WORK_REFUSED: "The hub rejected the ManifestWork.",
        addons.WAITING: "The work agent has not reported yet.",
    },
    ("ManagedClusterAddOn", addons.REGISTRATION_APPLIED): {
        addons.PERMISSION_APPLIED: "The agent's role is bound.",
        addons.PERMISSION_FAILED: "The agent's role may not be bound, or does not exist.",
        addons.PERMISSION_UNSUPPORTED: "The template requests rights in another namespace, or a custom signer.",
        addons.NO_REGISTRATION: "The add-on needs no access to the hub.",
    },
    ("ManagedClusterAddOn", addons.AVAILABLE): {
        addons.PROBE_AVAILABLE: "All probed workloads are ready.",
        addons.PROBE_UNAVAILABLE: "A Deployment or DaemonSet is not ready.",
        addons.NO_PROBE_RESULT: "The work agent has not reported the probed workloads.",
        addons.WORK_APPLIED: "The manifests are applied, and the add-on has no probe.",
        addons.WORK_NOT_APPLIED: "The manifests are not applied yet.",
        addon_health.RENEWED: "The agent renews its lease.",
        addon_health.STOPPED: "The agent has not renewed its lease for five minutes.",
        addon_health.NOT_FOUND: "The agent has no lease yet.",
    },
    ("ManagedClusterAddOn", addons.PROGRESSING): {
        addons.IN_PROGRESS: "The cluster does not run the newest configuration yet.",
        addons.COMPLETED: "The cluster runs the newest configuration.",
        addons.FAILED: "The newest configuration cannot be rolled out.",
    },
    ("ManagedClusterAddOn", addons.HOOK_COMPLETED): {
        addons.HOOK_RUNS: "A pre-delete Job or Pod has not completed yet.",
    },
    ("ManifestWork", work.WORK_APPLIED): {
        works.WORK_COMPLETE_REASON: "All manifests are applied.",
        works.WORK_FAILED: "A manifest could not be applied.",
        works.MANIFEST_APPLIED: "The manifest is applied (condition of a manifest).",
        works.MANIFEST_FAILED: "The manifest could not be applied (condition of a manifest).",
    },
    ("ManifestWork", work.WORK_AVAILABLE): {
        works.ALL_AVAILABLE: "All objects exist.",
        works.SOME_NOT_AVAILABLE: "An object does not exist.",
        works.STATUS_UNKNOWN: "An object could not be read.",
        works.AVAILABLE: "The object exists (condition of a manifest).",
        works.NOT_AVAILABLE: "The object does not exist (condition of a manifest).",
        works.INCOMPLETE: "The manifest does not identify an object (condition of a manifest).",
        works.FETCHING_FAILED: "The object could not be read (condition of a manifest).",
    },
    ("AddOnPlacementScore", publication.CONDITION): {
        assessment.NO_VALUES: "The provider read no values.",
        bridge.FAILING: "A calculator that the bridge copies reports a failure.",
        bridge.INCOMPLETE: "The bridge could not copy a calculator.",
    },
    ("AddOnPlacementScore", sink.SILENT): {
        silence_marker.EXPIRED: "The score expired and was not renewed.",
        silence_marker.UNAVAILABLE: "The cluster is unavailable, and the score was not renewed.",
    },
}

COMPLETE: Final[tuple[ModuleType, ...]] = (
    placement,
    unscored,
    acceptance,
    clustersets,
    addons,
    recovery,
    recovery_decision,
)
_NAME: Final = re.compile(r"(fairway\.dev/)?[A-Z][a-z]+([A-Z][A-Za-z]+)*")


def missing() -> set[str]:
    """Return constants of COMPLETE modules that CONDITIONS lacks."""
    listed = {name for (_, kind), reasons in CONDITIONS.items() for name in (kind, *reasons)}
    defined = {value for module in COMPLETE for value in _strings(module) if _NAME.fullmatch(value)}
    return defined - listed


def _strings(module: ModuleType) -> Iterator[str]:
    """Yield the string constants that the module itself defines."""
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            value = node.value.value
            if isinstance(value, str):
                yield value
