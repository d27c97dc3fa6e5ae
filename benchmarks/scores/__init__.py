"""What scores cost: the hub that takes them, and the agents that make them."""
