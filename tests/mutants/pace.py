"""Pace: every mutant meets the same few examples of a property, and what fails is not made smaller."""

import pytest
from hypothesis import Phase, settings

MOST_EXAMPLES = 40
SETTINGS = "_hypothesis_internal_use_settings"  # where Hypothesis keeps those of a test
ALIKE = {"derandomize": True, "database": None, "deadline": None, "phases": (Phase.explicit, Phase.generate)}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        test = getattr(item, "obj", None)
        test = getattr(test, "__func__", test)
        said = getattr(test, SETTINGS, None)
        if said is not None:
            fewer = min(said.max_examples, MOST_EXAMPLES)
            setattr(test, SETTINGS, settings(said, max_examples=fewer, **ALIKE))
