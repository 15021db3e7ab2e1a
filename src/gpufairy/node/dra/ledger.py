"""Who holds what of this node's GPUs: a file for each claim, which outlives this process."""
import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from gpufairy.core.errors import EngineRefused
from gpufairy.node.dra.messages import UID
from gpufairy.node.dra.values import Asked, Grant, Part

FILE = "grant.json"
log = logging.getLogger(__name__)


class Ledger:
    def __init__(self, folder: Path) -> None:
        """Raises EngineRefused."""
        self._folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)  # what is below is for the containers of its claim alone
            self._grants = {grant.claim.uid: grant for grant in written(folder)}
        except OSError as error:
            raise EngineRefused(f"the ledger of shares {folder} cannot be used: {error}", "Run as root.") from error

    @property
    def grants(self) -> list[Grant]:
        return list(self._grants.values())

    def get(self, uid: str) -> Grant | None:
        return self._grants.get(uid)

    def home(self, uid: str) -> Path:
        """What else belongs to the claim lies there too, and goes with it."""
        return self._folder / uid

    def put(self, grant: Grant) -> None:
        """Held from this call on. Raises EngineRefused: what cannot be written down is not granted."""
        self._grants[grant.claim.uid] = grant
        home = self.home(grant.claim.uid)
        try:
            home.mkdir(mode=0o755, exist_ok=True)
            beside = home / f"{FILE}.new"
            beside.write_text(json.dumps(asdict(grant)))
            beside.replace(home / FILE)
        except OSError as error:
            del self._grants[grant.claim.uid]
            raise EngineRefused(f"{home} cannot be written: {error.strerror}", "Is the kubelet's disk full?") from error

    def remove(self, uid: str) -> None:
        """Free from now on. Absent: fine. Raises EngineRefused: a file that stays would be held again after the next start."""
        try:
            (self.home(uid) / FILE).unlink(missing_ok=True)
            shutil.rmtree(self.home(uid), ignore_errors=True)
        except OSError as error:
            raise EngineRefused(f"{self.home(uid)} cannot be removed: {error.strerror}") from error
        self._grants.pop(uid, None)


def written(folder: Path) -> Iterator[Grant]:
    """Files are whole or not there, unless the machine itself stopped: then what they tell of has stopped too."""
    for path in sorted(folder.glob(f"*/{FILE}")):
        try:
            yield grant_of(json.loads(path.read_text()))
        except (ValueError, LookupError, TypeError) as error:
            log.warning("%s cannot be read, and is passed over: %s", path, error)


def grant_of(told: dict[str, object]) -> Grant:
    claim, parts, pods = told["claim"], told["parts"], told["pods"]
    if not isinstance(claim, dict) or not isinstance(parts, list) or not isinstance(pods, list):
        raise TypeError("no grant")
    found = Grant(Asked(**claim), tuple(Part(**part) for part in parts), tuple(map(str, pods)))
    if not UID.fullmatch(found.claim.uid):
        raise ValueError(f"uid {found.claim.uid[:60]!r}")
    return found
