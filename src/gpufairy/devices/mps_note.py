"""What is written down of a daemon before anything is changed, so that whoever comes after a crash finds it and can mend it."""
import json
import os
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from gpufairy.devices.mps_words import folder_not_made
from gpufairy.devices.process_mark import ProcessMark, command_line, mark_of

NOTE = "daemon.json"
PID_FILE = "nvidia-cuda-mps-control.pid"  # MPS's own, in the pipe folder
PROGRAM = "nvidia-cuda-mps-control"


@dataclass(frozen=True, slots=True)
class MpsNote:
    gpu: str
    pid: int | None = None  # None: not started yet
    start_ticks: int | None = None
    since: str = ""  # ISO 8601, of the start
    multiuser: bool = True

    @property
    def mark(self) -> ProcessMark | None:
        return ProcessMark(self.pid, self.start_ticks) if self.pid is not None and self.start_ticks is not None else None

    @property
    def since_time(self) -> datetime | None:
        return datetime.fromisoformat(self.since) if self.since else None


def notes_in(folder: Path) -> list[MpsNote]:
    return [note for path in sorted(folder.glob(f"*/{NOTE}")) if (note := read_note(path.parent)) is not None]


def read_note(folder: Path) -> MpsNote | None:
    """None: there is none. One that a crash of the machine left half still says that there was a daemon, and the folder names its GPU."""
    try:
        return MpsNote(**json.loads((folder / NOTE).read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError):
        return MpsNote(folder.name)


def write_note(folder: Path, note: MpsNote) -> None:
    """Raises EngineRefused: what cannot be written down is not done."""
    beside = folder / f"{NOTE}.new"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(json.dumps(asdict(note)))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(folder / NOTE)
    except OSError as error:
        raise folder_not_made(str(folder), str(error)) from error


def forget_note(folder: Path) -> None:
    (folder / NOTE).unlink(missing_ok=True)


def running_daemon(pipe: Path) -> ProcessMark | None:
    """By MPS's own file. It is open to all on this machine, so the number is believed only if the process is such a daemon."""
    try:
        pid = int((pipe / PID_FILE).read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return mark_of(pid) if PROGRAM in command_line(pid) else None
