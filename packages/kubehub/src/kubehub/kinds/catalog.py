"""The hooks of each built-in resource."""

from collections.abc import Callable
from datetime import datetime

from kubehub.admission.control import BINDINGS, POLICIES
from kubehub.admission.kinds import Policy, PolicyBinding
from kubehub.crd.kind import Definition
from kubehub.csr.kind import CertificateSigningRequest
from kubehub.kind import Kinds, RequiresResourceVersion, RuntimeClass
from kubehub.kinds.core import ConfigMap, Event, Lease, LimitRange, Namespace, Node, Secret
from kubehub.kinds.network import Endpoints, Service
from kubehub.kinds.pods import Pod
from kubehub.kinds.priorities import CLASSES, Priorities, PriorityClass
from kubehub.kinds.storage import Claim, Driver, DriversOfNode, StorageClass, Volume
from kubehub.kinds.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Generational,
    Job,
    PodDisruptionBudget,
    PodTemplate,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from kubehub.object_reader import ObjectReader
from kubehub.rbac.authorizer import Authorizer
from kubehub.rbac.kinds import Binding, Role
from kubehub.registry import Registry


def kinds(
    *, authorizer: Authorizer, registry: Registry, objects: ObjectReader, clock: Callable[[], datetime]
) -> Kinds:
    """Map resource keys to their hooks; other resources have the default ones."""
    priorities = Priorities(objects)
    rbac = "rbac.authorization.k8s.io"
    return Kinds(
        {
            "namespaces": Namespace(),
            "nodes": Node(),
            "configmaps": ConfigMap(),
            "secrets": Secret(),
            "events": Event(),
            "limitranges": LimitRange(),
            "leases.coordination.k8s.io": Lease(),
            "pods": Pod(priorities),
            "podtemplates": PodTemplate(),
            "services": Service(),
            "endpoints": Endpoints(),
            "persistentvolumeclaims": Claim(),
            "persistentvolumes": Volume(),
            "storageclasses.storage.k8s.io": StorageClass(),
            "csidrivers.storage.k8s.io": Driver(),
            "csinodes.storage.k8s.io": DriversOfNode(),
            "replicationcontrollers": ReplicationController(),
            "deployments.apps": Deployment(),
            "replicasets.apps": ReplicaSet(),
            "statefulsets.apps": StatefulSet(),
            "daemonsets.apps": DaemonSet(),
            "jobs.batch": Job(),
            "cronjobs.batch": CronJob(),
            "poddisruptionbudgets.policy": PodDisruptionBudget(),
            "networkpolicies.networking.k8s.io": Generational(),
            "ingresses.networking.k8s.io": Generational(),
            "endpointslices.discovery.k8s.io": Generational(),
            "runtimeclasses.node.k8s.io": RuntimeClass(),
            "csistoragecapacities.storage.k8s.io": RequiresResourceVersion(),
            "volumeattachments.storage.k8s.io": RequiresResourceVersion(),
            "apiservices.apiregistration.k8s.io": RequiresResourceVersion(),
            CLASSES: PriorityClass(priorities),
            f"roles.{rbac}": Role(resource="roles", authorizer=authorizer),
            f"clusterroles.{rbac}": Role(resource="clusterroles", authorizer=authorizer),
            f"rolebindings.{rbac}": Binding(resource="rolebindings", authorizer=authorizer),
            f"clusterrolebindings.{rbac}": Binding(resource="clusterrolebindings", authorizer=authorizer),
            "certificatesigningrequests.certificates.k8s.io": CertificateSigningRequest(
                authorizer=authorizer, clock=clock
            ),
            POLICIES: Policy(authorizer=authorizer, registry=registry, objects=objects),
            BINDINGS: PolicyBinding(authorizer=authorizer, registry=registry, objects=objects),
            "customresourcedefinitions.apiextensions.k8s.io": Definition(registry=registry, clock=clock),
        }
    )
