"""Metrics, logs and traces. A leaf: anything may import it, it imports nothing of Fairway."""
