"""The commit: from a decision to a bound workload, or back with nothing left behind.

Data flow: ``CommitMachine`` takes events (``start``, ``allow``, ``finished``, ``observed``) and returns instructions.
It calls Reserve, Unreserve and Permit itself, because they only change memory. PreBind, Bind and PostBind do I/O: the
caller runs them as instructed and reports their results with the token of the instruction. ``perform`` carries out the
instructions that concern the queue.

    assume → Reserve → Permit → (wait) → PreBind → Bind → PostBind

- A failure before Bind, or a certain failure of Bind, calls Unreserve of all Reserve plugins in reverse order.
- A rejection by Reserve or Permit blames the plugin; the workload waits for an event. Later failures are errors; the
  workload is retried after its back-off.
- A Bind whose result is unknown is *read back* from the hub before anything is undone. If the hub does not show it, its
  place is kept until the request can no longer take effect (*in doubt*), and it is read back again.

``instructions`` has the values that the machine returns, ``calls`` contains faults of plugins, and ``machine`` has the
transitions.
"""

from fairway.engine.commit.calls import ACTIVATE, CommitPlugins
from fairway.engine.commit.instructions import Instruction, perform
from fairway.engine.commit.machine import LATE_BIND, LONGEST_WAIT, CommitMachine, Phase

__all__ = [
    "ACTIVATE",
    "LATE_BIND",
    "LONGEST_WAIT",
    "CommitMachine",
    "CommitPlugins",
    "Instruction",
    "Phase",
    "perform",
]
