"""Classes as this server needs them: which folders they have, and what presets they may name."""
from pathlib import Path

from gpufairy.control.house import House
from gpufairy.engines.class_folders import ClassFolders
from gpufairy.main.containers import places
from gpufairy.wire.config import Config

HAND_INS = "handin"  # in the data folder


def give_classes(house: House, data: Path, config: Config) -> None:
    """Homes and hand-ins lie on this machine's disk with the engines that run sessions on it."""
    classes, engine = house.classes, house.engine.name
    classes.presets = config.presets
    if engine in ("process", "docker"):
        classes.folders = ClassFolders(places(data, config).homes, data / HAND_INS, own_uids=engine == "docker")
    classes.mounts_hand_ins = engine == "docker"
