"""Python's collector of reference cycles, put off while a plan is made."""
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def put_off() -> Iterator[None]:
    """A plan makes many small values and no cycles: with thousands of nodes a sixth of its time would go into looking for some."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
