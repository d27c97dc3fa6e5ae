"""Fairway decides where work should run across many Kubernetes clusters, and can prove why."""

__version__ = "0.1.0"
