"""How properties are searched: the same examples for the same commit in every run, and at random only when asked to (`./test explore`)."""
import os

import pytest
from hypothesis import HealthCheck, Phase, settings

SETTINGS = "_hypothesis_internal_use_settings"  # where Hypothesis keeps those of a test
HURRIED_EXAMPLES = 20  # in ./test fast
EXPLORING = "FAIRY_TEST_EXPLORE"  # so many examples of each, at random

# A verdict that hangs on chance is none. What a search found stays as an @example beside the property.
settings.register_profile("steady", derandomize=True, database=None)
settings.register_profile(
    "explore", derandomize=False, database=None, deadline=None, suppress_health_check=list(HealthCheck),
    phases=[phase for phase in Phase if phase is not Phase.explain],  # a case is printed as it is to be pasted, without remarks
)  # fmt: skip


def pytest_configure() -> None:
    """Before any test is imported: each takes the settings that hold then."""
    settings.load_profile("explore" if EXPLORING in os.environ else "steady")


def is_property(item: pytest.Item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


def draw_fewer_examples(item: pytest.Item) -> None:
    """Of a property: the whole suite tries as many as the test says."""
    draw(item, min(HURRIED_EXAMPLES, settings_of(item).max_examples))


def settings_of(item: pytest.Item) -> settings:
    return getattr(item.obj, SETTINGS, settings.default)  # type: ignore[attr-defined]


def draw(item: pytest.Item, examples: int) -> None:
    setattr(item.obj, SETTINGS, settings(settings_of(item), max_examples=examples))  # type: ignore[attr-defined]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if EXPLORING not in os.environ:
        return
    items[:] = [item for item in items if is_property(item)]
    for item in items:
        draw(item, int(os.environ[EXPLORING]))
