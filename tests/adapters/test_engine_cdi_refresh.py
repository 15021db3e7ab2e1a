"""After a cut: NVIDIA's tool is run where it is there; else a person is told what to run."""
import json
from pathlib import Path

import pytest

from gpufairy.engines.cdi_refresh import refresh_cdi

SPEC = json.dumps({"kind": "nvidia.com/gpu", "devices": [{"name": "0"}]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "other.json").write_text(json.dumps({"kind": "other.com/nic", "devices": [{"name": "0"}]}))
    (tmp_path / "readme.txt").write_text("nothing")
    return tmp_path


def a_tool(folder: Path, script: str) -> str:
    tool = folder / "ctk"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    return str(tool)


async def test_the_file_that_is_there_is_written_anew(folder):
    (folder / "gpus.json").write_text(SPEC)
    assert await refresh_cdi([folder], a_tool(folder, f'echo "$@" > {folder}/asked')) == ""
    assert (folder / "asked").read_text() == f"cdi generate --output={folder}/gpus.json\n"


async def test_without_the_tool_one_is_told_what_to_run(folder):
    assert await refresh_cdi([folder], "no-such-tool") == ""
    (folder / "gpus.json").write_text(SPEC)
    assert f"run `no-such-tool cdi generate --output={folder}/gpus.json`" in await refresh_cdi([folder], "no-such-tool")


async def test_a_tool_that_fails_is_told_with_its_words(folder):
    (folder / "gpus.json").write_text(SPEC)
    assert "no driver here" in await refresh_cdi([folder], a_tool(folder, "echo no driver here >&2; exit 1"))
