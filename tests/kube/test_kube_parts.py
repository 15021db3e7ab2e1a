"""How the programs of Kubernetes come to be: with a Go that is pretended, so that nothing is fetched and nothing is built."""
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from kube import parts as made
from kube.parts import CannotBuild, folder_of_parts, one_builder, parts, uncounted_time

GO = """#!/bin/sh
echo "$*" >> "{folder}/calls"
case $1 in
    env) echo {version} ;;
    build) while [ "$1" != -o ]; do shift; done; {deed} ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(made, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(made, "GO_FOLDERS", ())
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def pretend_go(folder: Path, deed: str = 'echo built > "$2"', version: str = "go1.25.3") -> None:
    (folder / "go").write_text(GO.format(folder=folder, version=version, deed=deed))
    (folder / "go").chmod(0o755)


def test_a_part_is_built_once_and_found_again(folder: Path):
    pretend_go(folder)
    for _ in range(2):
        found = parts(["etcd"])
        assert found == {"etcd": folder_of_parts() / "etcd"}
        assert found["etcd"].read_text() == "built\n"
    assert (folder / "calls").read_text().count("build ") == 1


def test_another_version_of_a_module_is_another_folder(folder: Path, monkeypatch: pytest.MonkeyPatch):
    before, module = folder_of_parts(), folder / "module"
    shutil.copytree(made.MODULE, module)
    monkeypatch.setattr(made, "MODULE", module)
    assert folder_of_parts() == before
    (module / "go.sum").write_text("")
    assert folder_of_parts() != before


def test_a_build_that_broke_leaves_nothing_that_could_be_taken_for_whole(folder: Path):
    pretend_go(folder, 'echo half > "$2"; echo no room left >&2; exit 1')
    with pytest.raises(CannotBuild, match="no room left"):
        parts(["etcd"])
    assert [path for path in made.CACHE.rglob("*") if path.is_file()] == [made.CACHE / "kube.lock"]


def test_a_go_that_is_too_old_or_not_there_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch):
    pretend_go(folder, version="go1.19.8")
    with pytest.raises(CannotBuild, match=r"go1\.19\.8, and Kubernetes takes Go 1\.25 or later"):
        parts(["etcd"])
    monkeypatch.setenv("PATH", str(folder / "nothing"))
    with pytest.raises(CannotBuild, match="no Go"):
        parts(["etcd"])


def test_a_second_builder_waits_and_finds_what_the_first_made(folder: Path):
    pretend_go(folder)
    folder_of_parts().mkdir(parents=True)
    found: list[dict[str, Path]] = []
    with one_builder(1):
        second = threading.Thread(target=lambda: found.append(parts(["etcd"])))
        second.start()
        with pytest.raises(CannotBuild, match="another has been building"):
            parts(["etcd"], wait_s=0.0)
        (folder_of_parts() / "etcd").write_text("the first's")
        second.join()  # though the first goes on, with parts that the second does not want
    assert found[0]["etcd"].read_text() == "the first's"


def test_a_part_that_nobody_knows_is_told():
    with pytest.raises(CannotBuild, match="minikube: no such part; there are etcd, kube-apiserver"):
        parts(["minikube"])


def test_while_a_part_is_built_the_clock_of_the_test_stands_still():
    before_s, _ = signal.getitimer(signal.ITIMER_REAL)
    assert before_s > 0, "every test of this suite has a limit"
    with uncounted_time():
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= before_s
