"""Schedule pods on nodes, as kube-scheduler does, for pods whose ``schedulerName`` is one of our profiles.

Data flow: informers (``controller``) feed a ``NodeFleet`` and the queue of a ``SchedulingLoop`` (``pod_scheduling``). A
decision is bound by one request (``binding``). What users see of it are events and the condition PodScheduled
(``pod_status``, worded by ``diagnosis``). ``preemption`` evicts pods for others, ``gangs`` lets groups start
together, ``pod_metrics`` counts. ``hub_access`` has all requests to the hub, ``kinds`` the watched kinds.

On hubs with virtual machines, the same informers feed the state of machines (``virtual_machines``), which reads them
as ``machine_objects`` does. It grants growth to agents, which ask over TLS (``permit_server``, ``agent_access``,
``waiting_agents``), and migrates machines to make room, to nodes that ``machine_oracle`` finds. What it decides is
written by ``machine_steps``, in order for each object (``machine_lanes``, ``machine_writer``), and reported by
``machine_reports``.

The hub has all state: a binding is atomic, and a new leader begins with the pods and nodes that the hub shows. That
takes seconds for very many pods, so it happens in slices; ``store_changes`` holds back what changes meanwhile.
"""

from fairway.controllers.machines.controller import MachinesController
from fairway.controllers.machines.rbac import RULES

__all__ = ["RULES", "MachinesController"]
