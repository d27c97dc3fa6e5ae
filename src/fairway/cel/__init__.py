"""The Common Expression Language, with the Kubernetes libraries and the reference's costs.

Text is parsed, checked against the environment's types, and compiled to closures. Evaluation never stalls: depth and
size are limited when compiling, cost and work while evaluating, and regular expressions match in linear time.
"""

from fairway.cel.declarations import Dialect, Function, Library, Overload
from fairway.cel.environment import (
    CLUSTER_VARIABLE,
    DEFAULT_LIBRARIES,
    Environment,
    cluster_environment,
    rule_environment,
)
from fairway.cel.errors import (
    CelError,
    CompileError,
    CompileWorkExceeded,
    CostLimitExceeded,
    EvaluationError,
    InstantiationError,
    WorkLimitExceeded,
)
from fairway.cel.libraries.scores import ScoreSource, Withheld
from fairway.cel.program import DEFAULT_COST_LIMIT, DEFAULT_WORK_LIMIT, Outcome, Program
from fairway.cel.types import Type

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
    "cluster_environment",
    "rule_environment",
]
