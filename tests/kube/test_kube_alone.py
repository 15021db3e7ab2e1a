"""The Kubernetes client is a package of its own: it could be lifted out."""
import ast
import sys
from pathlib import Path

import pytest

import gpufairy.engines.kube
from gpufairy.engines.kube import exec as exec_module
from gpufairy.engines.kube import forward, logs, watch

FOLDER = Path(gpufairy.engines.kube.__path__[0])
THEIRS = {"aiohttp", "websockets", "yaml"}
LIGHT = ("errors", "kubeconfig", "identity", "tls", "words")  # which the agent may load


def imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_it_knows_nothing_of_the_rest_but_the_errors(path):
    for name in imported(path):
        ours = name == "gpufairy.core.errors" or name.startswith("gpufairy.engines.kube.")
        assert ours or name.split(".")[0] in {*sys.stdlib_module_names, *THEIRS}, f"{path.name}: {name}"


@pytest.mark.parametrize("name", LIGHT)
def test_what_the_agent_loads_of_it_is_light(name):
    assert not {"aiohttp", "websockets"} & {one.split(".")[0] for one in imported(FOLDER / f"{name}.py")}
    within = {one.rpartition(".")[2] for one in imported(FOLDER / f"{name}.py") if one.startswith("gpufairy.engines.kube.")}
    assert within <= {*LIGHT}


def test_its_face_is_there():
    assert all((exec_module.exec_stream, forward.forward, logs.read_logs, watch.Watched))
