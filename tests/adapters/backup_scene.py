"""A data folder as a server leaves it, for the tests of backup and restore."""
import asyncio
import gzip
import io
import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path

from store_builders import NOW, a_session, a_store, placed, submitted

from gpufairy.core.people import Role, User
from gpufairy.store.backup import Sources, make_backup

AT = datetime(2026, 11, 16, 2, 30, tzinfo=UTC)
SECRET_FILES = {"server-id": "0123456789ab", "apps.json": "{}", "ssh/host_ed25519": "PRIVATE KEY", "ssh/host_rsa": "PRIVATE RSA"}


async def fill(url: str, sessions: int = 3) -> None:
    async with a_store(url) as store:
        await store.people.add_user(User("mina", Role.ADMIN, NOW))
        made = [a_session(f"s{n}") for n in range(sessions)]
        added = await store.sessions.add(made, [submitted(one) for one in made])
        await store.sessions.save([placed(one) for one in added[:-1]])  # the last one waits
        await store.meta.put("program_version", "0.0.9")


def a_folder(data: Path, sessions: int = 3) -> Sources:
    """With a database of its own, keys and a settings file."""
    data.mkdir(parents=True)
    for name, text in SECRET_FILES.items():
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_text(text)
    settings = data.parent / "fairy.toml"
    settings.write_text("[policy]\nhalf_life = '3d'\n")
    url = f"sqlite:///{data / 'fairy.db'}"
    asyncio.run(fill(url, sessions))
    return Sources(url, data, settings)


def a_backup(sources: Sources, folder: Path, *, history: bool = False, name: str = "fairy-1"):
    return make_backup(sources, folder, name=name, why="a test", now=AT, history=history)


def members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive, "r:gz") as tar:
        return {one.name: tar.extractfile(one).read() for one in tar.getmembers()}


def forged(archive: Path, target: Path, *, change=None, extra: tuple[tarfile.TarInfo, bytes] | None = None) -> Path:
    """The same archive with one file changed and the rest as it was, or with one more."""
    with gzip.open(target, "wb") as packing, tarfile.open(fileobj=packing, mode="w") as tar:
        for name, body in members(archive).items():
            body = change(name, body) if change is not None else body  # noqa: PLW2901
            if body is not None:
                info = tarfile.TarInfo(name)
                info.size = len(body)
                tar.addfile(info, io.BytesIO(body))
        if extra is not None:
            tar.addfile(extra[0], io.BytesIO(extra[1]))
    return target


def with_manifest(name: str, body: bytes, **fields) -> bytes:
    return json.dumps({**json.loads(body), **fields}).encode() if name == "manifest.json" else body
