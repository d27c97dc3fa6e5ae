"""The controller ``machines``: it schedules pods, and runs virtual machines on the same nodes.

Each term (``controller``) has the scheduler of ``controllers.pods``. On hubs with virtual machines (``kinds``,
``hypervisors``), it is extended by ``virtual_machines``: informers also feed the state of machines (``observations``,
``objects``), which a ``driver`` has. Pods take their room from the same ledger (``room``). It grants growth to agents,
which ask over TLS (``permit_server``, ``agent_access``, ``waiting_agents``) or, as NeonVM's own do, without credentials
(``agent_addresses``). It migrates machines to make room, to nodes that ``oracle`` finds. What it decides is written by
``steps``, in order for each object (``lanes``, ``writer``), and reported by ``reports``.

The hub has all state: a binding is atomic, and a new leader begins with the pods and nodes that the hub shows. That
takes seconds for very many pods, so it happens in slices; ``runtime.store_changes`` holds back what changes meanwhile.
"""

from fairway.controllers.machines.controller import MachinesController
from fairway.controllers.machines.rbac import RULES

__all__ = ["RULES", "MachinesController"]
