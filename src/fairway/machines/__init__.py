"""Virtual machines on nodes: permits to grow, and migrations that make room.

Everything here is pure: events in, instructions out, and the clock is an argument.

Data flow: the caller reports nodes, pods, requests of agents, and the progress of migrations to ``MachineState.handle``
(``events``), and performs what it returns (``instructions``). Every event is one transaction of the ledger.

- ``permit_protocol`` decodes the request of a machine's agent, and encodes the reply.
- ``machine`` is what is known about one machine; ``size`` approves growth in whole compute units.
- ``permits`` books machines and permits in the ledger, and serves denied demand.
- ``relief`` decides which migrations a node needs; ``planner`` chooses the cheapest set of moves.
- ``migration`` is the record of a migration, ``migrations`` takes its steps, ``migrator`` describes who performs them;
  ``neonvm`` and ``kubevirt`` do that with the objects of NeonVM and KubeVirt.
- ``policy`` has the settings.
- ``report`` describes nodes and machines for readers, ``migration_story`` the steps of a migration.

A *machine* is the pod in which a VirtualMachine runs. Its *demand* is the size that its agent requests; the part beyond
the *permit* is denied, and waits for room. A *migration* moves a machine from its source pod to a target pod on another
node; the room that the source leaves is earmarked for the *beneficiaries*, the machines that it was started for.
"""

from fairway.machines.events import Event, Observation, Stage
from fairway.machines.instructions import Instruction
from fairway.machines.machine import Demand, Machine
from fairway.machines.migration import Migration, Phase
from fairway.machines.migrator import Migrator, SimulatedMigrator
from fairway.machines.permit_protocol import Permit, PermitError, PermitRequest, decode_request, encode_reply
from fairway.machines.planner import Candidate, Move, Plan, Targets, plan_moves
from fairway.machines.policy import MachinePolicy, PolicyError
from fairway.machines.relief import TargetOracle
from fairway.machines.state import MachineState

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
    "SimulatedMigrator",
    "Stage",
    "TargetOracle",
    "Targets",
    "decode_request",
    "encode_reply",
    "plan_moves",
]
