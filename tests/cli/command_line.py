"""How the tests start `fairy` as a process of its own."""
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
COMMAND = [sys.executable, "-c", "from gpufairy.cli.entry import run; run()"]
