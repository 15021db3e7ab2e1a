"""The native programs, compiled once for all tests here; and a porter to talk to."""
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from porter_scene import Porter, a_porter

from gpufairy.engines.build_native import Native, build


def open_folder() -> Path:
    """Not in pytest's own, which nobody else may enter: the porter runs under another uid."""
    folder = Path(tempfile.mkdtemp(prefix="fairy-"))
    folder.chmod(0o777)
    return folder


@pytest.fixture(scope="session")
def native() -> Iterator[Native]:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("namespaces are made by root, with unshare")
    folder = open_folder()
    yield build(folder)
    shutil.rmtree(folder)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    folder = open_folder()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def start_porter(native: Native, tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Porter]]:
    return lambda *arguments, **more: a_porter(native.porter, tmp_path, *arguments, **more)


@pytest.fixture
async def porter(start_porter) -> AsyncIterator[Porter]:
    async with start_porter() as running:
        yield running
