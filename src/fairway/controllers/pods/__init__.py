"""Schedule pods on nodes, as kube-scheduler does, for pods whose ``schedulerName`` is one of our profiles.

The controller is that of ``controllers.machines``, which adds virtual machines where the hub has them. Data flow:
``informers`` feed a ``NodeFleet`` and the queue of a ``SchedulingLoop`` (``scheduling``). A decision is bound by one
request (``binding``), after the volumes of the pod (``volume_binder``). What users see of it are events and the
condition PodScheduled (``status``, worded by ``diagnosis``). ``preemption`` evicts pods for others, ``gangs`` lets
groups start together, ``metrics`` counts. ``hub_access`` has all requests to the hub, ``kinds`` the watched kinds.

Informers last as long as the process, everything else one leadership term.
"""

from fairway.controllers.pods.rbac import RULES
from fairway.controllers.pods.scheduling import PodScheduling

__all__ = ["RULES", "PodScheduling"]
