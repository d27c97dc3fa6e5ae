"""Plugins that place pods on nodes, one file per plugin, with the names, reasons, codes and scores of kube-scheduler.

``workload`` makes a workload of a pod. Plugins read its template (``fairway.nodes.pod_template``), which pods that
differ in their names only share, so that cycles of such pods follow each other. ``profile`` has the registry of all
plugins and the default profile. ``normalizing`` and ``topology`` are what several plugins share.
"""

from fairway.plugins.pods.profile import POD_PLUGINS, default_profile, pod_registry
from fairway.plugins.pods.workload import pod_workload

__all__ = ["POD_PLUGINS", "default_profile", "pod_registry", "pod_workload"]
