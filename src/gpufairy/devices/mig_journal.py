"""The journal of cuts: each order is a file from before it is begun until what came of it is written down."""
import json
from pathlib import Path

from gpufairy.core.errors import BadInput, StoreUnavailable
from gpufairy.devices.mig_order import CutOrder, order_from_plain, order_to_plain
from gpufairy.devices.mig_simulated import write_whole

SUFFIX = ".order.json"


class CutJournal:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, order: CutOrder) -> None:
        try:
            write_whole(self._path(order.gpu), json.dumps(order_to_plain(order)))
        except OSError as error:
            raise StoreUnavailable(f"the order to cut {order.gpu} cannot be written down: {error}", "Mend that first.") from error

    def order(self, gpu: str) -> CutOrder | None:
        path = self._path(gpu)
        return _read(path) if path.exists() else None

    def orders(self) -> list[CutOrder]:
        """Those that were begun, and are neither finished nor undone."""
        return [_read(path) for path in sorted(self._folder.glob(f"*{SUFFIX}"))]

    def remove(self, gpu: str) -> None:
        self._path(gpu).unlink(missing_ok=True)

    def _path(self, gpu: str) -> Path:
        return self._folder / f"{gpu}{SUFFIX}"


def _read(path: Path) -> CutOrder:
    try:
        return order_from_plain(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise BadInput(f"the order in {path} cannot be read: {error}", "Look how the GPU is cut, and remove the file.") from error
