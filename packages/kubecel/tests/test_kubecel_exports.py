"""The public names of kubecel are pinned: one more or less is a change for its users."""

from importlib import import_module

import pytest

EXPORTS = {
    "kubecel": """
        CLUSTER_VARIABLE CelError CompileError CompileWorkExceeded CostLimitExceeded DEFAULT_COST_LIMIT
        DEFAULT_LIBRARIES DEFAULT_WORK_LIMIT Dialect Environment EvaluationError Function InstantiationError
        Library Outcome Overload Program ScoreSource Type Withheld WorkLimitExceeded __version__
        cluster_environment rule_environment
    """,
}


@pytest.mark.parametrize("package", EXPORTS)
def test_public_names_are_pinned_and_exist(package: str) -> None:
    module = import_module(package)
    assert sorted(module.__all__) == EXPORTS[package].split()
    assert all(hasattr(module, name) for name in module.__all__)
