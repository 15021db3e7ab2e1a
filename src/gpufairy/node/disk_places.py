"""Which folders of a host are walked through: those that were named, or /home where it lies on a disk of the host's own."""
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpufairy.core.disk import Place, outermost
from gpufairy.core.disk_report import MOST_PLACES, place_on
from gpufairy.core.errors import BadInput
from gpufairy.node.host_files import read_text
from gpufairy.node.host_mounts import unescaped

AUTO, NONE = "auto", "none"
HOME = "/home"
MOST_LINKS = 8  # from /home to where it really lies
# Everything else is taken for a file server's: many hosts must not walk through the same one.
LOCAL_KINDS = frozenset("ext2 ext3 ext4 xfs btrfs zfs jfs f2fs bcachefs reiserfs nilfs2 overlay".split())
NEXT = "Write a whole path such as /data, auto (/home, if it is on a disk of this host), or none."


@dataclass(frozen=True, slots=True)
class HostFolders:
    """`root`: where the host's own files lie, seen from a container; empty: here."""

    node: str
    named: tuple[str, ...]  # empty: auto
    root: str = ""
    is_folder: Callable[[str], bool] = os.path.isdir
    is_off: bool = False

    def places(self) -> tuple[Place, ...]:
        """As of now: a disk may be mounted later than the agent is started."""
        if self.is_off:
            return ()
        return outermost([place_on(self.node, path) for path in self.named or self._own_home()])

    def here(self, place: Place) -> Place:
        """The same, by the path at which it is found here."""
        return Place(place.name, f"{self.root}{place.path}", place.of_homes, place.node)

    def _own_home(self) -> tuple[str, ...]:
        """A file server is not even looked at: a dead one never answers."""
        mounts = read_text(f"{self.root}/proc/1/mounts") or read_text(f"{self.root}/proc/self/mounts")
        path = HOME
        for _ in range(MOST_LINKS):
            if kind_at(path, mounts) not in LOCAL_KINDS:
                return ()
            aim = link_at(f"{self.root}{path}")
            if aim is None:
                return (HOME,) if self.is_folder(f"{self.root}{path}") else ()
            path = os.path.normpath(os.path.join(os.path.dirname(path), aim))
        return ()


def host_folders(node: str, wanted: Sequence[str], root: str = "") -> HostFolders:
    """`wanted`: as --disk was given. Raises BadInput, in words."""
    words = [word.strip() for word in wanted] or [AUTO]
    if len(words) > 1 and (AUTO in words or NONE in words):
        raise BadInput("--disk: auto and none stand alone", NEXT)
    if words[0] in (AUTO, NONE):
        return HostFolders(node, (), root, is_off=words[0] == NONE)
    if len(words) > MOST_PLACES:
        raise BadInput(f"--disk: {len(words)} folders, and {MOST_PLACES} are the most", "Name a folder above them.")
    for word in words:
        if not word.startswith("/") or ".." in word.split("/") or not word.isprintable():
            raise BadInput(f"--disk: {word[:60]!r} is no whole path", NEXT)
    return HostFolders(node, tuple(dict.fromkeys(os.path.normpath(word).replace("//", "/") for word in words)), root)


def link_at(path: str) -> str | None:
    """Where a link leads; None: it is none."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def kind_at(path: str, mounts: str) -> str:
    """Of the file system that has it; empty: not known. What was mounted last at a path hides what was."""
    found: dict[str, str] = {}
    for line in mounts.split("\n"):
        words = line.split(" ")
        if len(words) >= 4:
            found[unescaped(words[1])] = words[2]
    above = [at for at in found if at in ("/", path) or path.startswith(f"{at}/")]
    return found[max(above, key=len)] if above else ""
