"""A share of one gibibyte on one card."""
from pathlib import Path

import pytest
from share_scene import Box


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)
