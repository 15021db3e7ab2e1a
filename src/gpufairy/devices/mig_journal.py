"""The journal of cuts: each order is a file from before it is begun until what came of it is written down."""
import json
import logging
from pathlib import Path

from gpufairy.core.errors import BadInput, StoreUnavailable
from gpufairy.devices.mig_order import CutOrder, order_from_plain, order_to_plain
from gpufairy.devices.mig_simulated import write_whole

SUFFIX = ".order.json"
ASIDE = ".unreadable"  # after the name of an order that nobody can read
WHAT_TO_DO = "Look how the GPU is cut (`fairy mig show`), cut it as it should be (`fairy mig apply`), and remove"

log = logging.getLogger("gpufairy.mig")


class CutJournal:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told: set[Path] = set()  # of files that stay where they are

    def write(self, order: CutOrder) -> None:
        try:
            write_whole(self._path(order.gpu), json.dumps(order_to_plain(order)))
        except OSError as error:
            raise StoreUnavailable(f"the order to cut {order.gpu} cannot be written down: {error}", "Mend that first.") from error

    def order(self, gpu: str) -> CutOrder | None:
        path = self._path(gpu)
        return self._read(path) if path.exists() else None

    def orders(self) -> list[CutOrder]:
        """Those that were begun, and are neither finished nor undone."""
        return [order for path in sorted(self._folder.glob(f"*{SUFFIX}")) if (order := self._read(path)) is not None]

    def remove(self, gpu: str) -> None:
        self._path(gpu).unlink(missing_ok=True)

    def _path(self, gpu: str) -> Path:
        return self._folder / f"{gpu}{SUFFIX}"

    def _read(self, path: Path) -> CutOrder | None:
        """None: it is finished meanwhile, or cannot be read. That keeps no server from starting: the driver says how GPUs are cut."""
        try:
            return order_from_plain(json.loads(path.read_text()))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._tell_once(path, str(error))
        except ValueError as error:
            self._set_aside(path, str(error))
        except BadInput as error:
            self._set_aside(path, error.detail)
        return None

    def _set_aside(self, path: Path, found: str) -> None:
        aside = path.with_name(f"{path.name}{ASIDE}")
        try:
            path.replace(aside)
        except FileNotFoundError:  # by another reader, who told of it
            return
        except OSError as error:
            self._tell_once(path, f"{found}; and it cannot be set aside: {error}")
            return
        log.warning("the order to cut a GPU in %s cannot be read: %s. %s %s.", path, found, WHAT_TO_DO, aside)

    def _tell_once(self, path: Path, found: str) -> None:
        if path not in self._told:
            self._told.add(path)
            log.warning("the order to cut a GPU in %s cannot be read: %s. %s it.", path, found, WHAT_TO_DO)
