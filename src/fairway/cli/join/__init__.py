"""`fairway join`: run a klusterlet as a process, create join tokens, and leave or forget a cluster."""
