"""The tools of /opt/fairy, run where there is nothing else: in an image of busybox alone, and in one of nothing at all."""
import os
import shutil
import stat
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemons import RealDaemon
from gpufairy.core.errors import EngineRefused
from gpufairy.engines import build_native, tools
from gpufairy.engines.build_native import build
from gpufairy.engines.tools import Tools, build_tools
from gpufairy.engines.tools_libraries import loader_of
from images import BUSYBOX_IMAGE, SCRATCH_IMAGE

pytestmark = pytest.mark.slow  # real processes, each with a start of its own

UID = 12345  # that no image has heard of
Run = Callable[..., tuple[int, bytes]]


@pytest.fixture(scope="module")
def made() -> Iterator[Tools]:
    folder = Path(tempfile.mkdtemp(prefix="fairy-tools-"))  # not pytest's, which other uids cannot enter
    folder.chmod(0o755)
    yield build_tools(folder)
    shutil.rmtree(folder)


@pytest.fixture(params=[BUSYBOX_IMAGE, SCRATCH_IMAGE])
def run(request: pytest.FixtureRequest, docker_daemon: RealDaemon, made: Tools) -> Run:
    """A command in a new container: its exit code, and all it wrote on both streams."""
    def in_container(*argv: str, **env: str) -> tuple[int, bytes]:
        variables = {"PATH": "/opt/fairy/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "SHELL": "/opt/fairy/bin/bash", "TERM": "xterm-256color", **env}
        wanted = {
            "Image": request.param, "User": f"{UID}:{UID}", "Entrypoint": list(argv), "Env": [f"{name}={value}" for name, value in variables.items()],
            "HostConfig": {"Binds": [f"{made.folder}:/opt/fairy:ro"], "NetworkMode": "none", "Tmpfs": {"/tmp": "mode=1777"}, "CapDrop": ["ALL"]},
        }  # fmt: skip
        container = docker_daemon.ask("POST", "/containers/create", wanted)["Id"]
        docker_daemon.ask("POST", f"/containers/{container}/start")
        code = docker_daemon.ask("POST", f"/containers/{container}/wait")["StatusCode"]
        out = docker_daemon.ask("GET", f"/containers/{container}/logs?stdout=1&stderr=1")
        docker_daemon.ask("DELETE", f"/containers/{container}")
        return code, unmixed(out if isinstance(out, bytes) else str(out).encode())

    return in_container


def unmixed(log: bytes) -> bytes:
    """Docker puts eight bytes before each piece, the last four its length."""
    pieces = []
    while log:
        (size,) = struct.unpack(">I", log[4:8])
        pieces.append(log[8 : 8 + size])
        log = log[8 + size :]
    return b"".join(pieces)


@pytest.mark.system
class TestInAContainer:
    def test_bash_runs(self, run: Run):
        assert run("/opt/fairy/bin/bash", "-c", "echo $((6 * 7)); exit 3") == (3, b"42\n")

    def test_bash_knows_whether_it_is_a_login_shell(self, run: Run):
        code, out = run("/opt/fairy/bin/bash", "-c", "exec -a -bash bash -c 'shopt -q login_shell && echo login'")
        assert (code, out) == (0, b"login\n")

    @pytest.mark.parametrize("program", ["rsync", "tar", "less"])
    def test_programs_say_their_version(self, run: Run, program: str):
        code, out = run(f"/opt/fairy/bin/{program}", "--version")
        assert (code, program.encode() in out) == (0, True)

    def test_rsync_copies_to_another_rsync(self, run: Run):
        script = """cd /tmp; echo 'shift; exec "$@"' > rsh; echo abc > one; rsync -a --rsh='bash /tmp/rsh' one any:/tmp/two && read -r two < two; echo $two"""
        assert run("/opt/fairy/bin/bash", "-c", script) == (0, b"abc\n")

    def test_sftp_server_says_its_version_to_a_user_whom_the_image_does_not_know(self, run: Run):
        hello = "import subprocess as s; p = s.Popen('sftp-server', stdin=s.PIPE, stdout=s.PIPE); p.stdin.write(b'\\0\\0\\0\\5\\1\\0\\0\\0\\3'); p.stdin.flush(); print(p.stdout.read(9)[4:])"
        assert run("/opt/fairy/bin/python3", "-c", hello) == (0, b"b'\\x02\\x00\\x00\\x00\\x03'\n")

    def test_scp_receives_for_a_user_whom_the_image_does_not_know(self, run: Run):
        _, out = run("/opt/fairy/bin/bash", "-c", r"printf 'C0644 3 name\nabc\0' | scp -t /tmp; read -r got < /tmp/name; echo; echo $got")
        assert out.splitlines()[-1] == b"abc"

    def test_tmux_has_a_terminal_and_speaks_utf8(self, run: Run):
        script = "tmux new -d 'echo héllo; tmux wait-for -S shown; read' && tmux wait-for shown && tmux capture-pane -p | { read -r line; echo $line; }"
        assert run("/opt/fairy/bin/bash", "-c", script) == (0, "héllo\n".encode())

    def test_python_runs_with_its_compiled_modules(self, run: Run):
        code, out = run("/opt/fairy/bin/python3", "-c", "import ssl, sqlite3, ctypes, lzma, readline, sys; print(sys.executable)")
        assert (code, out) == (0, b"/opt/fairy/bin/python3\n")

    def test_python_starts_itself_again(self, run: Run):
        again = "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True).stdout)"
        assert run("/opt/fairy/bin/python3", "-c", again) == (0, b"b'42\\n'\n")

    def test_fairy_runs_whatever_python_variables_the_user_has(self, run: Run):
        code, out = run("/opt/fairy/bin/fairy", "--help", PYTHONPATH="/tmp/none", PYTHONHOME="/nowhere")
        assert (code, b"fairy" in out) == (0, True), out

    def test_nothing_of_the_loader_is_inherited(self, run: Run):
        _, out = run("/opt/fairy/bin/bash", "-c", "compgen -e")
        assert {b"LD_LIBRARY_PATH", b"LD_PRELOAD", b"LOCPATH", b"PYTHONHOME"} & set(out.split()) == set()

    def test_the_porter_is_among_them(self, run: Run):
        assert run("/opt/fairy/bin/porter", "--", "bash", "-c", "echo $$; exit 5")[0] == 5


def test_all_may_read_them_and_none_changes_rights(made: Tools):
    for path in made.folder.rglob("*"):
        mode = path.stat().st_mode
        assert mode & 0o7777 in (0o755, 0o644), path
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode), path


def test_everything_is_compiled_for_a_folder_that_is_read_only(made: Tools):
    library = made.folder / "lib" / f"python3.{sys.version_info.minor}"
    for name in ("json/__init__", "typer/main", "gpufairy/cli/entry"):
        path = library / name
        assert (path.parent / "__pycache__" / f"{path.name}.{sys.implementation.cache_tag}.pyc").exists()


def test_the_second_time_nothing_is_made(made: Tools):
    first, said = build_tools(made.folder.parent), []
    assert build_tools(made.folder.parent, said.append) == first
    assert said == []


def test_missing_programs_are_named_with_what_brings_them(made: Tools, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tools, "PROGRAMS", {**tools.PROGRAMS, "tmux": (("no-such-program",), "tmux")})
    fewer = build_tools(made.folder.parent)
    assert fewer.missing["tmux"] == "apt-get install tmux"
    assert fewer.folder != made.folder
    assert not (fewer.folder / "bin" / "tmux").exists()
    assert (fewer.folder / "bin" / "bash").exists() == (made.folder / "bin" / "bash").exists()


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineRefused, match="no C compiler") as refused:
        build(tmp_path)
    assert "install" in refused.value.next_step


def test_source_that_does_not_compile_is_said_in_the_compilers_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "porter.c").write_text("int main(void) { return nobody; }\n")
    monkeypatch.setattr(build_native, "SOURCES", (tmp_path,))
    with pytest.raises(EngineRefused, match="cannot be built"):
        build(tmp_path / "made")
    assert list((tmp_path / "made").iterdir()) == []


def test_changed_source_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sources = tmp_path / "native"
    shutil.copytree(build_native.find_sources(), sources)
    monkeypatch.setattr(build_native, "SOURCES", (sources,))
    first = build(tmp_path)
    assert build(tmp_path) == first
    with open(sources / "porter.h", "a", encoding="ascii") as header:
        header.write("/* changed */\n")
    assert build(tmp_path) != first


def test_the_loader_of_a_static_program_or_a_script_is_none(made: Tools, tmp_path: Path):
    assert loader_of(made.porter) is None
    (tmp_path / "script").write_text("#!/bin/sh\n" * 20)
    assert loader_of(tmp_path / "script") is None
    assert os.path.exists(loader_of(Path("/proc/self/exe")))
