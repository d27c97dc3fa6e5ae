"""The score SDK, the providers built on it, and the agent that runs them on a managed cluster.

May import ``fairway.kube``, ``fairway.api`` and ``fairway.observe``, and nothing beside or above it.
"""
