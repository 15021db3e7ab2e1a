"""Native parts that come ready, and when they are not taken: another machine, another source, an older C library, a file that was lost."""
import json
import os
import platform
import shutil
from pathlib import Path

import pytest

from gpufairy.core.errors import EngineRefused
from gpufairy.engines import build_native, native_shipped
from gpufairy.engines.build_native import build_disk_walk, compile_into, find_sources, shipped_parts
from gpufairy.engines.native_parts import DISK_WALK, FLAGS, PARTS, hash_of, parts_for
from gpufairy.engines.native_shipped import NOTE, needed_glibc, own_glibc, write_note

MACHINE = platform.machine()


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As in a wheel, where they may be changed."""
    folder = tmp_path / "native_src"
    shutil.copytree(find_sources(), folder)
    monkeypatch.setattr(build_native, "SOURCES", (folder,))
    return folder


@pytest.fixture
def shipped(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As a wheel brings them for this machine. What is in the files is of no concern to whoever looks for them."""
    folder = tmp_path / "native_bin" / MACHINE
    folder.mkdir(parents=True)
    for name in PARTS:
        (folder / name).write_bytes(b"\x7fELF ... GLIBC_2.2.5\0GLIBC_2.17\0")
        (folder / name).chmod(0o755)
    write_note(folder, hash_of(sources, MACHINE))
    monkeypatch.setattr(build_native, "SHIPPED", folder.parent)
    return folder


def test_what_comes_ready_for_this_machine_is_taken_and_nothing_compiled(shipped, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert build_native.build(tmp_path / "tools").porter == shipped / "porter"
    assert build_disk_walk(tmp_path / "tools") == shipped / DISK_WALK
    assert not (tmp_path / "tools").exists()


@pytest.mark.slow
def test_with_other_source_beside_them_they_are_compiled_anew(shipped, sources, tmp_path):
    with open(sources / "porter.h", "a", encoding="ascii") as header:
        header.write("/* changed */\n")
    assert shipped_parts() is None
    assert build_disk_walk(tmp_path / "tools").is_relative_to(tmp_path / "tools")


def test_without_any_source_as_in_an_image_they_are_taken_as_they_are(shipped, sources):
    shutil.rmtree(sources)
    assert shipped_parts() == shipped


@pytest.mark.parametrize("loss", ["a part", "its right to be run", "the note", "half of the note", "the machine"])
def test_if_anything_of_them_is_lost_they_are_compiled(shipped, tmp_path, monkeypatch, loss):
    if loss == "a part":
        (shipped / "launcher").unlink()
    elif loss == "its right to be run":  # as unpackers do that know no modes
        (shipped / "launcher").chmod(0o644)
    elif loss == "the note":
        (shipped / NOTE).unlink()
    elif loss == "half of the note":
        (shipped / NOTE).write_text((shipped / NOTE).read_text()[:20])
    else:
        monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert shipped_parts() is None


def test_a_library_that_needs_a_newer_c_library_than_this_machines_is_compiled_here(shipped, monkeypatch):
    assert shipped_parts() == shipped
    monkeypatch.setattr(native_shipped, "own_glibc", lambda: (2, 12))
    assert shipped_parts() is None
    monkeypatch.setattr(native_shipped, "own_glibc", lambda: (0, 0))  # no glibc at all: musl, macOS
    assert shipped_parts() is None


def test_versions_are_compared_as_numbers(tmp_path):
    (tmp_path / "one.so").write_bytes(b"GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.4\0GLIBC_PRIVATE")
    (tmp_path / "none.so").write_bytes(b"nothing")
    assert (needed_glibc(tmp_path / "one.so"), needed_glibc(tmp_path / "none.so")) == ((2, 34), (0, 0))
    assert own_glibc() == tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")[:2]))


def test_the_note_says_what_they_were_made_of(shipped, sources):
    assert json.loads((shipped / NOTE).read_text()) == {"source": hash_of(sources, MACHINE), "glibc": [2, 17]}
    assert len({hash_of(sources, machine) for machine in ("x86_64", "aarch64")}) == 2


@pytest.mark.slow
def test_a_compiler_with_a_new_warning_stops_nobody(sources, tmp_path):
    """Of ours it is an error, in the next test; in the field it is no reason not to start."""
    assert "-Werror" not in FLAGS
    with open(sources / "disk" / "walk.c", "a", encoding="ascii") as source:
        source.write("static int nobody_calls_me(void) { int unused; return 0; }\n")
    assert build_disk_walk(tmp_path / "tools").exists()


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_part_has_a_warning_on_any_machine_that_a_compiler_is_found_for(tmp_path, machine):
    compiler = shutil.which("cc" if machine == MACHINE else f"{machine}-linux-gnu-gcc")
    if compiler is None:
        pytest.skip(f"no compiler for {machine} (apt-get install gcc-{machine.replace('_', '-')}-linux-gnu libc6-dev-arm64-cross)")
    strict = {name: ("-Werror", *arguments) for name, arguments in parts_for(machine).items()}
    compile_into(tmp_path / "made", find_sources(), strict, compiler)
    assert {path.name for path in (tmp_path / "made").iterdir()} == set(PARTS)


def test_no_source_and_nothing_ready_is_said_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(build_native, "SOURCES", (tmp_path,))
    monkeypatch.setattr(build_native, "SHIPPED", tmp_path)
    with pytest.raises(EngineRefused, match="source is in none of") as refused:
        build_native.build(tmp_path / "tools")
    assert refused.value.next_step == "Install gpufairy again."
