"""Conditions of a ManagedClusterAddOn. Types and most reasons are OCM's."""

from typing import Final

from fairway.api.meta import FALSE, TRUE, UNKNOWN, Condition

AVAILABLE: Final = "Available"
CONFIGURED: Final = "Configured"
PROGRESSING: Final = "Progressing"
MANIFEST_APPLIED: Final = "ManifestApplied"
REGISTRATION_APPLIED: Final = "RegistrationApplied"
HOOK_COMPLETED: Final = "HookManifestCompleted"

CONFIGURATIONS_CONFIGURED: Final = "ConfigurationsConfigured"
CONFIGURATION_NOT_FOUND: Final = "ConfigurationNotFound"
CONFIGURATION_UNSUPPORTED: Final = "ConfigurationUnsupported"
TEMPLATE_INVALID: Final = "TemplateInvalid"

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

HOOK_RUNS: Final = "HookManifestIsNotCompleted"

CONFIGURED_MESSAGE: Final = "all configurations exist"
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
PROGRESS_MESSAGE: Final = "the cluster does not run the newest configuration yet"
COMPLETED_MESSAGE: Final = "the cluster runs the newest configuration"
AVAILABLE_MESSAGE: Final = "{name} add-on is available."
NO_PROBE_MESSAGE: Final = "the work agent has not reported the state of the agent yet"
HOOK_MESSAGE: Final = "ManifestWork {work} runs before the add-on is removed"


def yes(kind: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=TRUE, reason=reason, message=message)


def no(kind: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=FALSE, reason=reason, message=message)


def unknown(kind: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=UNKNOWN, reason=reason, message=message)
