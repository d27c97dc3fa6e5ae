"""Virtual machines on nodes: permits to grow, and migrations that make room. No I/O, and the clock is an argument.

Work: a virtual machine runs in a pod, which the profiles of pods place. What is decided here is how far it may grow
where it is, and which machines migrate when a node has no room for what its machines ask for.

Data flow: the caller reports nodes, pods, requests of agents and the progress of migrations to
``MachineState.handle`` (``events``), and carries out what it returns (``instructions``), in any order for different
objects. Every event is one ``turn``: one transaction of the ledger. After a restart, ``MachineState.rebuild`` restores
the state from objects alone.

Modules:

- ``state`` dispatches events. ``table`` has one entry for each machine, migration and node; the next three change it.
- ``permits`` books machines and permits in the ledger, and serves denied demand, by the arithmetic of ``size``;
  ``refusals`` has the reasons of refused requests.
- ``migrations`` takes the steps of migrations; ``migration`` is the record of one, ``migration_record`` the object that
  keeps it.
- ``relief`` decides which migrations a node needs; ``planner`` chooses the cheapest set of ``moves``: ``movable``
  leaves out what no plan uses, ``move_search`` is the exact search.
- ``migrator`` describes who performs the steps; ``neonvm`` and ``kubevirt`` do that with the objects of NeonVM and
  KubeVirt. ``migration_limits`` is what they carry out at once.
- ``permit_protocol`` decodes the request of a machine's agent, and encodes the reply.
- ``policy`` has the settings, ``settings`` reads them from the arguments of a plugin.
- ``report`` describes nodes and machines for readers, ``migration_story`` the steps of a migration. ``simulation``
  plays a trace of growth.

Words: a *machine* (``machine``) is the pod in which a virtual machine runs; a pod without one only uses room. Its
*demand* is the size that its agent requests; the part beyond the *permit* is denied, and waits for room. A *migration*
moves a machine from its *source* pod to a *target* pod on another node; the room that the source leaves is earmarked
for the *beneficiaries*, the machines that it was started for, by *claims*.

Laws, which tests check after every event (``tests/workloads/machines/invariants.py``):

- No node has more promised than it has, unless others bypassed the scheduler; then no grant makes it worse.
- Room that is kept for a machine is given to no other.
- A source leaves, its beneficiary grows and the earmark ends in one step.
- A machine has at most one migration, and one pod owns a virtual machine.
- What a machine uses is at most its permit, and the permit at most its request.
- A permit is booked before it is written, and written before the agent gets it; a step of a migration is written before
  it takes effect. Instructions are absolute: one that is carried out twice has the same result.
"""

from fairway.workloads.machines.events import Event, Observation, Stage
from fairway.workloads.machines.instructions import Instruction
from fairway.workloads.machines.machine import Demand, Machine
from fairway.workloads.machines.migration import Migration, Phase
from fairway.workloads.machines.migrator import Migrator, SimulatedMigrator
from fairway.workloads.machines.moves import Candidate, Move, Plan, Proof, Targets
from fairway.workloads.machines.permit_protocol import (
    Permit,
    PermitError,
    PermitRequest,
    decode_request,
    encode_reply,
)
from fairway.workloads.machines.policy import MachinePolicy, PolicyError
from fairway.workloads.machines.relief import TargetOracle
from fairway.workloads.machines.state import MachineState

__all__ = [
    "Candidate",
    "Demand",
    "Event",
    "Instruction",
    "Machine",
    "MachinePolicy",
    "MachineState",
    "Migration",
    "Migrator",
    "Move",
    "Observation",
    "Permit",
    "PermitError",
    "PermitRequest",
    "Phase",
    "Plan",
    "PolicyError",
    "Proof",
    "SimulatedMigrator",
    "Stage",
    "TargetOracle",
    "Targets",
    "decode_request",
    "encode_reply",
]
