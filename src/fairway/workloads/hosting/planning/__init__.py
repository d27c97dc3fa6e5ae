"""What-ifs and plans: each is decided by the code that places requests, on a copy of the state.

``placing`` places many requests in one pass, ``fit`` finds the changes that would make one fit, ``report`` has the room
of each host, ``violations`` where hosts violate policies, ``evacuation`` whether what a host carries fits elsewhere.
``moves`` plans to drain and rebalance hosts: ``move_problem`` turns that into numbers, ``move_search`` finds the fewest
moves. ``loss`` answers what the failure of hosts would strand. ``adoption`` finds hosted clusters that no request
created. ``recovery`` plans where the hosted clusters of a lost host are created again.
"""
