"""`fairway agent`: the add-on's agent, which runs on a managed cluster and publishes its scores on the hub."""
