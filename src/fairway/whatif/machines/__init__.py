"""What-if for pods and virtual machines: the state that a scheduler would have, rebuilt from objects.

``world`` builds the table of nodes, the state of the machines and the scheduler from objects of a hub or of files.
``explain_pod`` explains why a pod is where it is, or why it waits; ``pod_remedies`` which change would let it fit.
Nothing here writes.
"""

__all__ = ["explain_pod", "pod_remedies", "world"]
