"""Acceptance: what a cluster gets on the hub once an administrator has let it in."""
