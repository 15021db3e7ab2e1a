"""Which tests run when, and beside which others.

On a fresh machine the programs of Kubernetes are still being built when the tests begin, and its one node is for one module at a time: its
files go to one test process, after the other long ones. What takes no time comes last, and evens out who is done when.
"""
import functools
import re
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
KUBERNETES = "kubernetes"
OF_KUBERNETES = re.compile(r"^from kube\b|\b(pod_scene|kube_scene|cluster_with_tools|lone_cluster|kubernetes_stage)\b", re.MULTILINE)
SETTINGS, HURRIED_EXAMPLES = "_hypothesis_internal_use_settings", 20  # where Hypothesis keeps them
LONG = ("system", "slow")
ALL_LONG = re.compile(r"^pytestmark = .*\bpytest\.mark\.(system|slow)\b", re.MULTILINE)


@functools.cache
def needs_kubernetes(file: str) -> bool:
    return file.startswith("tests/kube/") or OF_KUBERNETES.search((ROOT / file).read_text()) is not None


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


class Turns(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return KUBERNETES if needs_kubernetes(file_of(nodeid)) else file_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    config.option.loadscopereorder = False  # as they were put in order below
    return Turns(config, log)


def in_a_hurry(config: pytest.Config) -> bool:
    """./test fast"""
    return all(f"not {name}" in config.option.markexpr for name in LONG)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of which nothing is wanted is not imported: browsers, clusters and clouds take a while to load."""
    if collection_path.suffix != ".py" or not in_a_hurry(config):
        return None
    return ALL_LONG.search(collection_path.read_text()) is not None or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    long = {file_of(item.nodeid) for item in items if any(item.get_closest_marker(name) for name in LONG)}

    def rank(item: pytest.Item) -> int:
        file = file_of(item.nodeid)
        return 1 if needs_kubernetes(file) else 0 if file in long else 2

    items.sort(key=rank)
    if in_a_hurry(config):
        for item in items:
            fewer_examples(getattr(item, "obj", None))


def fewer_examples(test: object) -> None:
    """Of a property: the whole suite tries as many as the test says."""
    said = getattr(test, SETTINGS, None)
    if said is not None and said.max_examples > HURRIED_EXAMPLES:
        setattr(test, SETTINGS, settings(said, max_examples=HURRIED_EXAMPLES))
