"""Load the profiles and plugins of `--scheduler-config`."""

import time
from collections.abc import Iterable
from pathlib import Path

from fairway.cli.errors import InputProblemsError, Problem
from fairway.engine.kind import WorkKind
from fairway.scheduling import ConfigurationError, Scheduling, Supervisor, Watchdog, load
from fairway.scheduling.kinds import KINDS, WITH_ONE_PROFILE
from fairway.workloads.hosting.profile import HOSTING_KIND
from fairway.workloads.placement.profile import PLACEMENT_KIND
from fairway.workloads.pods.profile import POD_KIND


def load_scheduling(path: Path | None, *, beside_pods: bool = False) -> Scheduling:
    """Load the profile of Placements, with the plugins of installed packages. Raises InputProblemsError.

    ``beside_pods`` is whether the file may have profiles of pods, which are skipped.
    """
    return _load(path, kind=PLACEMENT_KIND, beside=KINDS if beside_pods else WITH_ONE_PROFILE)


def load_hosting_scheduling(path: Path | None) -> Scheduling:
    """Load the profile of HostedClusterRequests. Raises InputProblemsError."""
    return _load(path, kind=HOSTING_KIND, beside=KINDS)


def load_pod_scheduling(path: Path | None) -> Scheduling:
    """Load the profiles of pods: a KubeSchedulerConfiguration, or the profiles of a SchedulerConfiguration that are not
    for another kind of work. Raises InputProblemsError."""
    return _load(path, kind=POD_KIND, beside=KINDS)


def load_used_scheduling(path: Path | None, *, pods: bool) -> tuple[Scheduling, ...]:
    """Load the profiles of all kinds of work that controllers place. ``pods`` is whether they place pods. Raises
    InputProblemsError."""
    kinds = KINDS if pods else WITH_ONE_PROFILE
    return tuple(_load(path, kind=kind, beside=kinds) for kind in kinds)


def load_all_scheduling(path: Path) -> list[Scheduling]:
    """Load the profiles that a file has, of all kinds of work. Raises InputProblemsError with all problems."""
    loaded, problems = [], []
    for kind in KINDS:
        try:
            loaded.append(_load(path, kind=kind, beside=KINDS))
        except InputProblemsError as error:
            problems += [problem for problem in error.problems if problem not in problems]
    if problems:
        raise InputProblemsError(problems)
    if any(scheduling.is_kube for scheduling in loaded):
        return [scheduling for scheduling in loaded if scheduling.is_kube]
    return [
        scheduling
        for scheduling in loaded
        if scheduling.kind is PLACEMENT_KIND
        or any(profile.path for profile in scheduling.configuration.profiles)
    ]


def _load(path: Path | None, *, kind: WorkKind, beside: Iterable[WorkKind]) -> Scheduling:
    supervisor = Supervisor(clock=time.monotonic, watch=Watchdog())
    try:
        return load(path, kind=kind, beside=beside, supervisor=supervisor)
    except ConfigurationError as error:
        raise InputProblemsError(
            [
                Problem(
                    file=problem.file,
                    line=problem.line,
                    path=problem.field,
                    message=problem.message,
                    remedy=problem.remedy,
                )
                for problem in error.problems
            ]
        ) from None
