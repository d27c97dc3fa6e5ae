"""The cost of scores for the hub and for the agents."""
