"""One agent in a folder, and whoever comes second is told who is there."""
import os
from pathlib import Path

import pytest

from gpufairy.core.errors import BadInput, Conflict
from gpufairy.node.folder_lock import FolderLock


def test_a_second_agent_in_the_same_folder_is_told_who_holds_it(tmp_path: Path):
    first = FolderLock(tmp_path / "node")
    with pytest.raises(Conflict, match=f"in use by the agent with pid {os.getpid()}"):
        FolderLock(tmp_path / "node")
    first.release()
    FolderLock(tmp_path / "node").release()


def test_a_folder_that_cannot_be_made_is_said_in_words(tmp_path: Path):
    (tmp_path / "node").write_text("mine")
    with pytest.raises(BadInput, match="cannot be used: File exists"):
        FolderLock(tmp_path / "node")


def test_a_link_in_place_of_the_lock_leads_nowhere(tmp_path: Path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "agent.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(BadInput, match="cannot be used"):
        FolderLock(tmp_path)
    assert (tmp_path / "precious").read_text() == "mine"
