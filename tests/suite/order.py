"""Which tests run when, and beside which others.

A Kubernetes has one node, which is for one module at a time: its tests go to one test process, as soon as its programs are built. On a fresh
machine that takes minutes, in which the others run. Of those the long ones come first; what takes no time comes last, and evens out who is
done when.
"""
import functools
import re
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from kube.parts import CONTROL_PLANE, NODE, folder_of_parts
from suite.properties import draw_fewer_examples, is_property

KUBERNETES = "kubernetes"  # the mark, and the name of the one process that runs those who have it
CLUSTERS = {"shared_cluster", "lone_cluster"}  # fixtures; all others with a cluster have one of them
ROOT = Path(__file__).parents[2]
MARKED = re.compile(r"^pytestmark = .*\bpytest\.mark\.kubernetes\b", re.MULTILINE)
LONG = ("system", "slow")
ALL_LONG = re.compile(r"^pytestmark = .*\bpytest\.mark\.(system|slow)\b", re.MULTILINE)


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


class Turns(LoadScopeScheduling):
    """A file to a process, and all of Kubernetes to one."""

    def _split_scope(self, nodeid: str) -> str:
        return KUBERNETES if is_of_kubernetes(nodeid) else file_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if KUBERNETES in self.workqueue and is_built():
            self.workqueue.move_to_end(KUBERNETES, last=False)
        super()._assign_work_unit(node)


def is_of_kubernetes(nodeid: str) -> bool:
    """By what is known of a test without importing it: its file is marked, or it is the case of a test that is told on several engines."""
    return is_marked(file_of(nodeid)) or f"[{KUBERNETES}" in nodeid


@functools.cache
def is_marked(file: str) -> bool:
    return MARKED.search((ROOT / file).read_text()) is not None


def is_built() -> bool:
    folder = folder_of_parts()
    return all((folder / name).exists() for name in (*CONTROL_PLANE, *NODE))


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


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unmarked = {file_of(item.nodeid) for item in items if needs_cluster(item) and not item.get_closest_marker(KUBERNETES)}
    if unmarked:
        raise pytest.UsageError(f"these ask for a cluster and lack the mark `kubernetes`, for the whole file: {', '.join(sorted(unmarked))}")
    long = {file_of(item.nodeid) for item in items if any(item.get_closest_marker(name) for name in LONG)}

    def rank(item: pytest.Item) -> int:
        return 1 if item.get_closest_marker(KUBERNETES) else 0 if file_of(item.nodeid) in long else 2

    items.sort(key=rank)
    if in_a_hurry(config):
        for item in filter(is_property, items):
            draw_fewer_examples(item)


def needs_cluster(item: pytest.Item) -> bool:
    return bool(CLUSTERS & set(getattr(item, "fixturenames", ())))
