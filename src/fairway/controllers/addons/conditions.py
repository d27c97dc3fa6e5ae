"""Conditions of a ManagedClusterAddOn. Types and most reasons are OCM's."""

from typing import Final

from kubewire.api.meta import FALSE, TRUE, UNKNOWN, Condition

AVAILABLE: Final = "Available"
CONFIGURED: Final = "Configured"
PROGRESSING: Final = "Progressing"
MANIFEST_APPLIED: Final = "ManifestApplied"
HOSTING_APPLIED: Final = "HostingManifestApplied"
REGISTRATION_APPLIED: Final = "RegistrationApplied"
HOOK_COMPLETED: Final = "HookManifestCompleted"

CONFIGURATIONS_CONFIGURED: Final = "ConfigurationsConfigured"
CONFIGURATIONS_NOT_CONFIGURED: Final = "ConfigurationsNotConfigured"
CONFIGURATION_NOT_FOUND: Final = "ConfigurationNotFound"
CONFIGURATION_UNSUPPORTED: Final = "ConfigurationUnsupported"
TEMPLATE_INVALID: Final = "TemplateInvalid"
ROLLOUT_HELD: Final = "RolloutHeld"

APPLIED: Final = "AddonManifestApplied"
NOT_APPLIED: Final = "AddonManifestAppliedFailed"
WORK_REFUSED: Final = "ManifestWorkApplyFailed"
WAITING: Final = "WaitingForWorkAgent"

NO_REGISTRATION: Final = "NilRegistration"
PERMISSION_APPLIED: Final = "SetPermissionApplied"
PERMISSION_FAILED: Final = "SetPermissionFailed"
PERMISSION_UNSUPPORTED: Final = "PermissionUnsupported"

WORK_NOT_APPLIED: Final = "WorkNotApplied"
NO_PROBE_RESULT: Final = "NoProbeResult"
PROBE_UNAVAILABLE: Final = "ProbeUnavailable"
PROBE_AVAILABLE: Final = "ProbeAvailable"
WORK_APPLIED: Final = "WorkApplied"

IN_PROGRESS: Final = "Progressing"
COMPLETED: Final = "Completed"
FAILED: Final = "Failed"
WAITING_FOR_APPLIED: Final = "WaitingForManifestApplied"
WAITING_FOR_HOSTING_APPLIED: Final = "WaitingForHostingManifestApplied"
STRATEGY_INVALID: Final = "RolloutStrategyInvalid"

HOOK_RUNS: Final = "HookManifestIsNotCompleted"

CONDITIONS: Final = {
    ("ManagedClusterAddOn", CONFIGURED): {
        CONFIGURATIONS_CONFIGURED: "The cluster has its configurations.",
        CONFIGURATIONS_NOT_CONFIGURED: "The cluster waits for its turn in the rollout.",
        CONFIGURATION_NOT_FOUND: "A template or configuration does not exist.",
        CONFIGURATION_UNSUPPORTED: "A configuration is of an unsupported kind, or belongs to another add-on.",
        ROLLOUT_HELD: "The rollout strategy is not All, so the cluster keeps its earlier configuration.",
        TEMPLATE_INVALID: "The template has an undefined variable, or a manifest that is not an object.",
    },
    ("ManagedClusterAddOn", MANIFEST_APPLIED): {
        APPLIED: "The cluster has applied the manifests.",
        NOT_APPLIED: "The cluster rejected a manifest.",
        WORK_REFUSED: "The hub rejected the ManifestWork.",
        WAITING: "The work agent has not reported yet.",
    },
    ("ManagedClusterAddOn", REGISTRATION_APPLIED): {
        PERMISSION_APPLIED: "The agent's role is bound.",
        PERMISSION_FAILED: "The agent's role may not be bound, or does not exist.",
        PERMISSION_UNSUPPORTED: "The template requests rights in another namespace, or a custom signer.",
        NO_REGISTRATION: "The add-on needs no access to the hub.",
    },
    ("ManagedClusterAddOn", AVAILABLE): {
        PROBE_AVAILABLE: "All probed workloads are ready.",
        PROBE_UNAVAILABLE: "A Deployment or DaemonSet is not ready.",
        NO_PROBE_RESULT: "The work agent has not reported the probed workloads.",
        WORK_APPLIED: "The manifests are applied, and the add-on has no probe.",
        WORK_NOT_APPLIED: "The manifests are not applied yet.",
    },
    ("ManagedClusterAddOn", PROGRESSING): {
        IN_PROGRESS: "The cluster does not run the newest configuration yet.",
        COMPLETED: "The cluster runs the newest configuration.",
        FAILED: "The newest configuration cannot be rolled out.",
        ROLLOUT_HELD: "The rollout strategy is not All, so the newest configuration is not rolled out.",
        CONFIGURATION_UNSUPPORTED: "A configuration is of a kind that the add-on's manager does not support.",
        WAITING_FOR_APPLIED: "The add-on's manager has not deployed the agent yet.",
        WAITING_FOR_HOSTING_APPLIED: "The add-on's manager has not deployed to the hosting cluster yet.",
    },
    ("ClusterManagementAddOn", PROGRESSING): {
        IN_PROGRESS: "Clusters of the Placement do not run the newest configurations yet.",
        COMPLETED: "All clusters of the Placement run the newest configurations.",
        STRATEGY_INVALID: "The rollout strategy has an invalid value; the message names the field.",
    },
    ("ManagedClusterAddOn", HOOK_COMPLETED): {HOOK_RUNS: "A pre-delete Job or Pod has not completed yet."},
}

CONFIGURED_MESSAGE: Final = "Configurations configured"
APPLIED_MESSAGE: Final = "the manifests of the add-on are applied"
WAITING_MESSAGE: Final = "the work agent of the cluster has not reported on ManifestWork {work} yet"
REGISTERED_MESSAGE: Final = "the agent may register, and its permissions on the hub are granted"
NOT_REGISTERED_MESSAGE: Final = "the add-on does not request access to the hub"
SINGLE_NAMESPACE: Final = (
    "hubPermissions of the type SingleNamespace are granted by OCM's addon-manager only: bind the role to the group "
    "{group} by hand, and leave the permission out of the template"
)
CUSTOM_SIGNER: Final = (
    "certificates of the signer {signer} are approved and signed by OCM's addon-manager only: approve and sign them by "
    "other means"
)
BIND_REFUSED: Final = (
    "Fairway may not bind ClusterRole {role} to the agent: {why}; grant it the verb `bind` on that role, as "
    "docs/how-to/addons.md shows"
)
ROLE_MISSING: Final = "ClusterRole {role}, which the template references, does not exist"
PROGRESS_MESSAGE: Final = "progressing... {why}"
CONFIGS_DIFFER: Final = "mca and work configs mismatch"
WORK_NOT_READY: Final = "work is not ready"
NO_WORKS: Final = "no addon works"
NOT_CONFIGURED_MESSAGE: Final = "Configurations updated and not configured yet"
KIND_UNSUPPORTED: Final = "Configuration with gvr {group}/{resource} is not supported for this addon"
WAITING_FOR_CONDITION: Final = "Waiting for ManagedClusterAddOn {type} condition"
ROLLING_OUT: Final = (
    "selected clusters {selected}. configured addons {done}/{configured} progressing..., {failed} failed "
    "{timed_out} timeout."
)
ROLLED_OUT: Final = (
    "selected clusters {selected}. configured addons {done}/{configured} completed with no errors, {failed} failed "
    "{timed_out} timeout."
)
COMPLETED_MESSAGE: Final = "completed with no errors."
AVAILABLE_MESSAGE: Final = "{name} add-on is available."
NO_PROBE_MESSAGE: Final = "the work agent has not reported the state of the agent yet"
HOOK_MESSAGE: Final = "ManifestWork {work} runs before the add-on is removed"


def yes(kind: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=TRUE, reason=reason, message=message)


def no(kind: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=FALSE, reason=reason, message=message)


def unknown(kind: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=UNKNOWN, reason=reason, message=message)
