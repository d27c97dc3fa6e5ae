"""OCM's registration controller. While it runs, Fairway accepts, denies and removes no clusters."""

from typing import Final

LEASE: Final = "registration-controller-lock"

RUNS: Final = (
    "OCM's registration controller runs on this hub (%s holds the lease %s/%s): Fairway does not accept or remove "
    "clusters until that lease expires"
)
STOPPED: Final = "OCM's registration controller has stopped: Fairway accepts and removes clusters"
