"""The server that is attacked: as users start it, with its gateway, in a folder of its own."""
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.server import LiveServer

SETTINGS = "[node]\ncpus = 64\nmemory = '256GiB'\nname = 'box'\n"


@contextmanager
def a_server(settings: str = SETTINGS) -> Iterator[LiveServer]:
    """In a short folder: sockets lie in it, whose paths have at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="fairy-a-"))
    try:
        with LiveServer(folder, settings, ssh=True) as live:
            yield live
    finally:
        shutil.rmtree(folder)
