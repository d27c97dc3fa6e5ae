"""Talk to a hub from a command.

- `session`: `--kubeconfig` and `--context`, the connection, and `talk`, which runs a coroutine with a client.
- `objects`: list objects, with a progress bar where there are many. `names`: names only, for completion.
- `overlay`, `world`: the hub's objects with those of files applied over them, once or while watching.
- `watch`, `wait`: follow changes for `--watch` and `--wait`.
- `messages`: what went wrong and what to do about it.
"""
