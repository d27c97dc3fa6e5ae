"""`fairway get`: list what a hub has.

`command` defines a subcommand for each kind. `view` is the base class of the tables in `clusters`, `placements` and
`scores`; `listing` prints a view once or watches it. Providers are derived from scores (`provider_listing`).
"""
