"""ManifestWork: objects for a managed cluster; AppliedManifestWork: their record on that cluster."""

from typing import Annotated, Final

from msgspec import Struct, field

from kubewire.api.annotation import Field, Int32, Int64, Manifest, Time, no_items
from kubewire.api.meta import Condition, Conditions, ObjectMeta

WORK_GROUP: Final = "work.open-cluster-management.io"

FOREGROUND: Final = "Foreground"
ORPHAN: Final = "Orphan"
SELECTIVELY_ORPHAN: Final = "SelectivelyOrphan"

UPDATE: Final = "Update"
CREATE_ONLY: Final = "CreateOnly"
SERVER_SIDE_APPLY: Final = "ServerSideApply"
READ_ONLY: Final = "ReadOnly"

ON_SPOKE_PRESENT: Final = "OnSpokePresent"
ON_SPOKE_CHANGE: Final = "OnSpokeChange"

WELL_KNOWN_STATUS: Final = "WellKnownStatus"
JSON_PATHS: Final = "JSONPaths"

WELL_KNOWN_CONDITIONS: Final = "WellKnownConditions"
CEL: Final = "CEL"

SERVICE_ACCOUNT: Final = "ServiceAccount"

MANIFEST_WORK_FINALIZER: Final = "cluster.open-cluster-management.io/manifest-work-cleanup"
APPLIED_MANIFEST_WORK_FINALIZER: Final = "cluster.open-cluster-management.io/applied-manifest-work-cleanup"

WORK_APPLIED: Final = "Applied"
WORK_AVAILABLE: Final = "Available"
WORK_COMPLETE: Final = "Complete"
WORK_PROGRESSING: Final = "Progressing"

_ACCOUNT_NAME: Final = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$"
_GROUP: Final = "API group; empty for the core one."
_NAMESPACE: Final = "Namespace; empty for an object that lives in none."


class ResourceIdentifier(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Which one of the work's manifests is meant. ``OrphaningRule`` has the same fields."""

    group: Annotated[str, Field(_GROUP)] = ""
    resource: Annotated[str, Field("Plural name of the kind.", required=True)] = field(default_factory=str)
    namespace: Annotated[str, Field(_NAMESPACE)] = ""
    name: Annotated[str, Field("Name of the object.", required=True)] = field(default_factory=str)


class SelectivelyOrphans(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    orphaningRules: Annotated[
        tuple[ResourceIdentifier, ...],
        Field("Objects that are kept when the work or their manifest is deleted."),
    ] = ()


class DeleteOption(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    propagationPolicy: Annotated[
        str,
        Field(
            "What happens to the objects when the work is deleted.",
            default=FOREGROUND,
            enum=(FOREGROUND, ORPHAN, SELECTIVELY_ORPHAN),
        ),
    ] = ""
    selectivelyOrphans: Annotated[
        SelectivelyOrphans | None, Field("Objects that are kept, for the policy SelectivelyOrphan.")
    ] = None
    ttlSecondsAfterFinished: Annotated[
        Int64 | None, Field("Seconds after which a Complete work is deleted; if absent, it is kept.")
    ] = None


class JsonPath(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of the reported value.", required=True)] = field(default_factory=str)
    version: Annotated[str, Field("API version that the path applies to; empty means any.")] = ""
    path: Annotated[
        str, Field("JSONPath of the value from the root of the object, such as .status.phase.", required=True)
    ] = field(default_factory=str)


class FeedbackRule(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str,
        Field(
            "Whether well-known values of the kind or the values of the paths are reported.",
            required=True,
            enum=(WELL_KNOWN_STATUS, JSON_PATHS),
        ),
    ] = field(default_factory=str)
    jsonPaths: Annotated[
        tuple[JsonPath, ...],
        Field("Reported values, for the type JSONPaths.", list_type="map", map_keys=("name",)),
    ] = ()


class IgnoreField(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    condition: Annotated[
        str,
        Field(
            "When the fields are ignored: once the object exists, or once another client has changed them.",
            required=True,
            default=ON_SPOKE_PRESENT,
            enum=(ON_SPOKE_PRESENT, ON_SPOKE_CHANGE),
        ),
    ] = field(default_factory=str)
    jsonPaths: Annotated[tuple[str, ...], Field("The fields, in Kubernetes' JSONPath.")] = ()
    jsonPointers: Annotated[tuple[str, ...], Field("The fields, as JSON pointers.")] = ()
    jqPathExpressions: Annotated[tuple[str, ...], Field("The fields, as paths of jq.")] = ()


class ServerSideApply(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    force: Annotated[bool, Field("Take over fields of other managers.")] = False
    fieldManager: Annotated[
        str, Field("Field manager of the applied fields.", default="work-agent", pattern="^work-agent")
    ] = ""
    ignoreFields: Annotated[
        tuple[IgnoreField, ...],
        Field("Fields that are not applied to an existing object.", list_type="map", map_keys=("condition",)),
    ] = ()


class UpdateStrategy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str,
        Field(
            "How an existing object is updated.",
            required=True,
            default=UPDATE,
            enum=(UPDATE, CREATE_ONLY, SERVER_SIDE_APPLY, READ_ONLY),
        ),
    ] = field(default_factory=str)
    serverSideApply: Annotated[ServerSideApply | None, Field("Options of the strategy ServerSideApply.")] = (
        None
    )


class ConditionRule(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    condition: Annotated[str, Field("Type of the condition that is set.", required=True)] = field(
        default_factory=str
    )
    type: Annotated[
        str,
        Field(
            "Whether well-known rules of the kind or the expressions are evaluated.",
            required=True,
            enum=(WELL_KNOWN_CONDITIONS, CEL),
        ),
    ] = field(default_factory=str)
    celExpressions: Annotated[
        tuple[str, ...], Field("Expressions for the type CEL, all of which must be true.")
    ] = ()
    message: Annotated[str, Field("Message of the condition.")] = ""
    messageExpression: Annotated[
        str, Field("CEL expression for the message, over object and result; takes precedence over message.")
    ] = ""


class ManifestConfig(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    resourceIdentifier: Annotated[
        ResourceIdentifier, Field("The manifest that these options apply to.", required=True)
    ] = field(default_factory=ResourceIdentifier)
    feedbackRules: Annotated[tuple[FeedbackRule, ...], Field("Values of its status that are reported.")] = ()
    feedbackScrapeType: Annotated[
        str, Field("Whether the status is polled or watched.", default="Poll", enum=("Poll", "Watch"))
    ] = ""
    updateStrategy: Annotated[UpdateStrategy | None, Field("Update strategy; Update if absent.")] = None
    conditionRules: Annotated[
        tuple[
            Annotated[
                ConditionRule,
                Field(
                    validations=(
                        (
                            "self.type != 'CEL' || self.condition != \"\"",
                            "Condition is required for CEL rules",
                        ),
                    )
                ),
            ],
            ...,
        ],
        Field("Rules that set conditions.", list_type="map", map_keys=("condition",)),
    ] = ()


class ExecutorAccount(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    namespace: Annotated[
        str,
        Field(
            "Namespace of the account.", required=True, min_length=1, max_length=253, pattern=_ACCOUNT_NAME
        ),
    ] = field(default_factory=str)
    name: Annotated[
        str, Field("Name of the account.", required=True, min_length=1, max_length=253, pattern=_ACCOUNT_NAME)
    ] = field(default_factory=str)


class ExecutorSubject(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[str, Field("Kind of the subject.", required=True, enum=(SERVICE_ACCOUNT,))] = field(
        default_factory=str
    )
    serviceAccount: Annotated[ExecutorAccount | None, Field("The account, with the type ServiceAccount.")] = (
        None
    )


class Executor(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    subject: Annotated[
        ExecutorSubject | None, Field("Subject whose rights on the managed cluster are required.")
    ] = None


class Workload(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    manifests: Annotated[tuple[Manifest, ...], Field("Objects to apply.")] = ()


class ManifestWorkSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    workload: Annotated[Workload, Field("Manifests for the managed cluster.")] = Workload()
    deleteOption: Annotated[
        DeleteOption | None, Field("What happens to the objects when the work is deleted.")
    ] = None
    manifestConfigs: Annotated[tuple[ManifestConfig, ...], Field("Options by manifest.")] = ()
    executor: Annotated[Executor | None, Field("Identity with whose rights the manifests are applied.")] = (
        None
    )


class ManifestResourceMeta(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    ordinal: Annotated[Int32, Field("Index of the manifest in the work.", required=True)] = field(
        default_factory=int
    )
    group: Annotated[str, Field(_GROUP)] = ""
    version: Annotated[str, Field("API version.")] = ""
    kind: Annotated[str, Field("Kind.")] = ""
    resource: Annotated[str, Field("Plural name of the kind.")] = ""
    name: Annotated[str, Field("Name of the object.")] = ""
    namespace: Annotated[str, Field(_NAMESPACE)] = ""


class FieldValue(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str,
        Field(
            "Type of the value, which selects one of the other fields.",
            required=True,
            enum=("Integer", "String", "Boolean", "JsonRaw"),
        ),
    ] = field(default_factory=str)
    integer: Annotated[Int64 | None, Field("An integer.")] = None
    string: Annotated[str | None, Field("A string.")] = None
    boolean: Annotated[bool | None, Field("A boolean.")] = None
    jsonRaw: Annotated[str | None, Field("A list or an object, in JSON.", max_length=1024)] = None


class FeedbackValue(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of the value.", required=True)] = field(default_factory=str)
    fieldValue: Annotated[FieldValue, Field("The value.", required=True)] = field(default_factory=FieldValue)


class StatusFeedback(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    values: Annotated[
        tuple[FeedbackValue, ...], Field("The values, by name.", list_type="map", map_keys=("name",))
    ] = ()


class ManifestCondition(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    resourceMeta: Annotated[ManifestResourceMeta, Field("The manifest's resource.", required=True)] = field(
        default_factory=ManifestResourceMeta
    )
    statusFeedback: Annotated[StatusFeedback | None, Field("Reported values of its status.")] = None
    conditions: Annotated[
        tuple[Condition, ...],
        Field("Conditions of the object.", required=True, list_type="map", map_keys=("type",)),
    ] = field(default_factory=no_items)


class ManifestResourceStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    manifests: Annotated[tuple[ManifestCondition, ...], Field("Manifests in the order of the work.")] = ()


class ManifestWorkStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    conditions: Conditions = ()
    resourceStatus: Annotated[ManifestResourceStatus, Field("Observed state of each manifest.")] = (
        ManifestResourceStatus()
    )


class ManifestWork(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Its namespace is the name of the cluster it is for."""

    apiVersion: str = "work.open-cluster-management.io/v1"
    kind: str = "ManifestWork"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ManifestWorkSpec, Field("Desired state.")] = ManifestWorkSpec()
    status: Annotated[ManifestWorkStatus, Field("Observed state.")] = ManifestWorkStatus()


class AppliedResource(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    version: Annotated[str, Field("API version.", required=True)] = field(default_factory=str)
    group: Annotated[str, Field(_GROUP)] = ""
    resource: Annotated[str, Field("Plural name of the kind.", required=True)] = field(default_factory=str)
    namespace: Annotated[str, Field(_NAMESPACE)] = ""
    name: Annotated[str, Field("Name of the object.", required=True)] = field(default_factory=str)
    uid: Annotated[str, Field("UID of the object that was applied.")] = ""


class AppliedManifestWorkSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    hubHash: Annotated[str, Field("Hash of the hub's address.", required=True)] = field(default_factory=str)
    agentID: Annotated[str, Field("Work agent that manages the work.")] = ""
    manifestWorkName: Annotated[str, Field("Name of the ManifestWork on the hub.", required=True)] = field(
        default_factory=str
    )


class AppliedManifestWorkStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    appliedResources: Annotated[
        tuple[AppliedResource, ...], Field("The objects that were applied for the work.")
    ] = ()
    evictionStartTime: Annotated[Time | None, Field("Time since which the work is missing on the hub.")] = (
        None
    )


class AppliedManifestWork(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """On the managed cluster; named after the hub and the ManifestWork, it owns what was applied for it."""

    apiVersion: str = "work.open-cluster-management.io/v1"
    kind: str = "AppliedManifestWork"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[AppliedManifestWorkSpec, Field("The work that it belongs to.")] = (
        AppliedManifestWorkSpec()
    )
    status: Annotated[AppliedManifestWorkStatus, Field("Applied objects.")] = AppliedManifestWorkStatus()
