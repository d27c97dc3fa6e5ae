"""OCM's addon-manager. While it runs, Fairway does not manage add-ons."""

from typing import Final

LEASE: Final = "manager-lock"

RUNS: Final = (
    "OCM's addon-manager runs on this hub (%s holds the lease %s/%s): Fairway does not manage add-ons "
    "until that lease expires"
)
GONE: Final = "OCM's addon-manager has stopped: Fairway manages add-ons"
