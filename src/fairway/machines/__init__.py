"""Virtual machines on nodes: permits to grow, and migrations that make room.

Everything here is pure: events in, instructions out, and the clock is an argument.

- ``permit_protocol`` decodes the request of a machine's agent, and encodes the reply.
- ``size`` approves growth in whole compute units; ``machine`` is what is known about one machine.
- ``planner`` chooses the cheapest set of moves that makes room.
- ``policy`` has the settings.

A *machine* is the pod in which a VirtualMachine runs. Its *demand* is the size that its agent requests; the part beyond
the *permit* is denied, and waits for room. A *migration* moves a machine to another node; the room that it leaves is
earmarked for the machines it was started for.
"""

from fairway.machines.machine import Demand, Machine
from fairway.machines.permit_protocol import Permit, PermitError, PermitRequest, decode_request, encode_reply
from fairway.machines.planner import Candidate, Move, Plan, Targets, plan_moves
from fairway.machines.policy import MachinePolicy, PolicyError

__all__ = [
    "Candidate",
    "Demand",
    "Machine",
    "MachinePolicy",
    "Move",
    "Permit",
    "PermitError",
    "PermitRequest",
    "Plan",
    "PolicyError",
    "Targets",
    "decode_request",
    "encode_reply",
    "plan_moves",
]
