"""The one file that a backup is: a gzipped tar, its manifest first. Taken out is what the manifest names, if it is just that."""
import gzip
import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gpufairy.core.backup_manifest import LARGEST_MANIFEST, MADE_BY, NAME, Manifest, PackedFile, manifest_from_text
from gpufairy.core.errors import BadInput, StoreUnavailable

PRIVATE = 0o600
COMPRESSION = 3  # half the time of the usual 6, and a tenth more to keep
CHUNK = 2**20
LARGEST_HEADER = 2**16  # of those that tell more of the next file than one block holds
EXTENDED = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
MOST_PADDING = 2**16  # behind the last file a tar is filled up with some KiB of nothing


def packed(name: str, file: Path) -> PackedFile:
    with file.open("rb") as opened:
        return PackedFile(name, file.stat().st_size, hashlib.file_digest(opened, "sha256").hexdigest())


def write_archive(target: Path, manifest: Manifest, staged: Mapping[str, Path]) -> None:
    """Private from its first byte, and on the disk when this returns."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
    with os.fdopen(descriptor, "wb") as raw:
        with gzip.GzipFile("", "wb", COMPRESSION, raw) as packing, tarfile.open(fileobj=packing, mode="w") as tar:
            text = manifest.to_text().encode()
            tar.addfile(member(NAME, len(text), manifest), io.BytesIO(text))
            for file in manifest.files:
                with staged[file.name].open("rb") as opened:
                    tar.addfile(member(file.name, file.size_bytes, manifest), opened)
        raw.flush()
        os.fsync(raw.fileno())


def member(name: str, size: int, manifest: Manifest) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size, made.mode, made.mtime = size, PRIVATE, int(manifest.made_at.timestamp())
    return made


def read_manifest(archive: Path) -> Manifest:
    """Its beginning alone: whether the rest is whole, `unpack` tells."""
    with words_for(archive), opened_tar(archive) as (_, tar):
        return next_manifest(tar)


def unpack(archive: Path, folder: Path) -> Manifest:
    """Into an empty folder. Raises BadInput at the first thing that is not as the manifest says."""
    with words_for(archive), opened_tar(archive) as (unpacking, tar):
        manifest = next_manifest(tar)
        expected = {file.name: file for file in manifest.files}
        while (found := tar.next()) is not None:
            file = expected.pop(found.name, None)
            if file is None or not found.isreg() or found.size != file.size_bytes:
                raise BadInput(f"the backup {archive.name} holds {found.name[:80]!r}, which is not as its manifest says", MADE_BY)
            take_out(tar, found, file, folder / file.name, archive)
        if expected:
            raise BadInput(f"the backup {archive.name} ends before {min(expected)}", "It was cut short: take another.")
        # To the last byte: only there is the checksum over all of it.
        if len(unpacking.read(MOST_PADDING + 1)) > MOST_PADDING:
            raise BadInput(f"the backup {archive.name} goes on behind its end", MADE_BY)
        return manifest


def take_out(tar: tarfile.TarFile, found: tarfile.TarInfo, file: PackedFile, target: Path, archive: Path) -> None:
    """`target` is made of a name on our own list: the archive's word for a path is never used."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    source, digest = tar.extractfile(found), hashlib.sha256()
    assert source is not None
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as written:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            written.write(chunk)
        written.flush()
        os.fsync(written.fileno())
    if digest.hexdigest() != file.sha256:
        raise BadInput(f"the backup {archive.name} was changed: {file.name} is not what was packed", "Take another.")


def next_manifest(tar: tarfile.TarFile) -> Manifest:
    first = tar.next()
    if first is None or first.name != NAME or not first.isreg() or first.size > LARGEST_MANIFEST:
        raise BadInput("the file does not begin with a backup's manifest", MADE_BY)
    text = tar.extractfile(first)
    assert text is not None
    return manifest_from_text(text.read().decode(errors="replace"))


@contextmanager
def opened_tar(archive: Path) -> Iterator[tuple[gzip.GzipFile, tarfile.TarFile]]:
    with gzip.open(archive, "rb") as unpacking, tarfile.open(fileobj=unpacking, mode="r|", tarinfo=BoundedInfo) as tar:
        yield unpacking, tar


class BoundedInfo(tarfile.TarInfo):
    """A header that announces more to be read with it is read into memory whole, however long it says to be: ours never have one."""

    def _proc_member(self, tarfile_: tarfile.TarFile) -> tarfile.TarInfo | None:
        """What every Python calls with each header, before it reads on; some no longer ask frombuf for it."""
        if self.type in EXTENDED and self.size > LARGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        found: tarfile.TarInfo | None = super()._proc_member(tarfile_)  # type: ignore[misc]  # meant to be replaced, says its source
        return found


@contextmanager
def words_for(archive: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, OverflowError) as error:  # the last two: of tarfile, too
        words = str(error)[:100] or "it ends too early"
        raise BadInput(f"the backup {archive} cannot be read: {words}", "It is damaged: take another.") from None
    except OSError as error:
        found = error.strerror or str(error)
        raise StoreUnavailable(f"the backup {archive} cannot be read: {found}", "Check the path, and the room on that disk.") from error
