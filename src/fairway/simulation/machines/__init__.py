"""Synthetic nodes and virtual machines on a hub: what a cluster with NeonVM does, without hypervisors.

Each part is a client of the hub, and uses objects only:

- ``kubelet`` lets bound pods run, and removes pods that terminate.
- ``creation`` creates nodes and machines.
- ``agents`` are the agents of machines: loads that change, requests for permits, and sizes that follow them.
- ``permit_client`` sends their requests to a permit server.
- ``neonvm`` takes the place of NeonVM's controller: runner pods for VirtualMachines, and their migrations.

Everything is level-triggered: a part that restarts continues from the objects.
"""

__all__ = ["agents", "creation", "kubelet", "neonvm", "permit_client"]
