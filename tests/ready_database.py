"""A database with its tables: making them takes a tenth of a second, which a thousand tests need not spend. How they come to be has tests of its own."""
# ruff: noqa: ASYNC240  (a test may block: it has its event loop to itself)
import tempfile
from pathlib import Path

from gpufairy.core.cluster import Policy
from gpufairy.store.store import Store

_made: list[bytes] = []


async def put_database(file: Path) -> None:
    """Unless there is one: then it is a server started again."""
    if file.exists():
        return
    if not _made:
        with tempfile.TemporaryDirectory() as folder:
            first = Path(folder) / "fairy.db"
            store = await Store.open(f"sqlite:///{first}", holder="test", half_life=Policy().half_life)
            await store.close()
            _made.append(first.read_bytes())
    file.write_bytes(_made[0])
