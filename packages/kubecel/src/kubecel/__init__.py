"""The Common Expression Language, with the Kubernetes libraries and the reference's costs.

Data flow: ``lexer`` and ``parser`` produce a syntax tree (``syntax``), ``macros`` expand it, ``checker`` infers types
against an ``Environment``, and ``compiler`` turns it into closures, a ``Program``. ``Program.evaluate`` returns an
``Outcome``.

- An *environment* has variables, types and libraries (``libraries/``); ``declarations`` describes functions and
  overloads.
- *Cost* is the reference's measure of an evaluation and part of its behaviour. *Work* is a measure of our own
  processor time (``work``, ``stack``); both are limited, so that an evaluation always ends soon. Depth and size are
  limited when compiling.
- *Reads* are the constant paths that a program reads, so that callers can cache results by value.
"""

from kubecel.declarations import Dialect, Function, Library, Overload
from kubecel.environment import (
    CLUSTER_VARIABLE,
    DEFAULT_LIBRARIES,
    Environment,
    cluster_environment,
    rule_environment,
)
from kubecel.errors import (
    CelError,
    CompileError,
    CompileWorkExceeded,
    CostLimitExceeded,
    EvaluationError,
    InstantiationError,
    WorkLimitExceeded,
)
from kubecel.libraries.scores import ScoreSource, Withheld
from kubecel.program import DEFAULT_COST_LIMIT, DEFAULT_WORK_LIMIT, Outcome, Program
from kubecel.types import Type

__version__ = "0.1.0"

__all__ = [
    "CLUSTER_VARIABLE",
    "DEFAULT_COST_LIMIT",
    "DEFAULT_LIBRARIES",
    "DEFAULT_WORK_LIMIT",
    "CelError",
    "CompileError",
    "CompileWorkExceeded",
    "CostLimitExceeded",
    "Dialect",
    "Environment",
    "EvaluationError",
    "Function",
    "InstantiationError",
    "Library",
    "Outcome",
    "Overload",
    "Program",
    "ScoreSource",
    "Type",
    "Withheld",
    "WorkLimitExceeded",
    "__version__",
    "cluster_environment",
    "rule_environment",
]
