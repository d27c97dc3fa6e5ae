"""Pods, each of which gets a node, decided as kube-scheduler decides them. No I/O.

Work: a pod with the scheduler's name, or a pod that a virtual machine runs in. It wants one node, and is bound once. If
no node has room, pods of a lower priority may be evicted for it.

Data flow: a pod becomes a workload; the engine decides it with the plugins of its profile, which read the snapshot of
nodes and the pod's template. From Reserve on, plugins book the place: ``AssumePod`` in the table of nodes,
``VirtualMachineAutoscaling`` in the ledger beside machines. The controller ``pods`` binds it. Rejected pods wait for a
change of the columns that the rejecting plugins read.

Modules:

- ``workload`` makes a workload of a pod, ``profile`` has all plugins and the default profile, ``plugins`` one file for
  each.
- What plugins read of a pod is in ``fairway.hosts.nodes.pod_template``, what they read of nodes in the columns of
  ``fairway.hosts.nodes``.

Words: those of kube-scheduler. The *template* is the part of a pod that plugins read; pods of one template differ in
their names only, and share cycles. A pod is *assumed* from the choice of its node until the hub shows it there, and
*nominated* while it waits on a node for the pods that it preempts. A *gang* is the pods of a PodGroup.

Laws:

- Filters and scores equal kube-scheduler's, with the same messages, for the same pod, nodes and arguments.
- A plugin reads the template and the snapshot only, so that pods of one template have the same outcome.
- Where a plugin has a form for all nodes, it agrees with the form for one node, which explains itself.
"""

from fairway.workloads.pods.profile import POD_PLUGINS, default_profile, pod_registry
from fairway.workloads.pods.workload import pod_workload

__all__ = ["POD_PLUGINS", "default_profile", "pod_registry", "pod_workload"]
