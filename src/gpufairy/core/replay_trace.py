"""A trace as text: a CSV of jobs with submit, duration, gpus and user, or an openb pod list. Names and units of columns as they are met."""
import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.replay_cells import cpus_of, duration_of, memory_of, priority_of, time_of, truth_of
from gpufairy.core.replay_job import Job, Trace, checked, refuse
from gpufairy.core.replay_openb import COLUMNS as OPENB
from gpufairy.core.replay_openb import openb_job
from gpufairy.core.session import Request
from gpufairy.core.share import parse_share

MOST_JOBS = 2_000_000
LONGEST_NAME = 100
MIB = 2**20

ALIASES = {
    "submit": ("submit", "submitted", "submission", "arrival", "arrive", "creation", "created", "time", "timestamp", "start"),
    "duration": ("duration", "run", "runtime", "elapsed", "length"),
    "gpus": ("gpus", "gpu", "num_gpu", "num_gpus", "n_gpus", "gpu_num", "gpu_count", "share"),
    "user": ("user", "owner", "user_name", "username", "user_id", "uid", "account"),
    "name": ("name", "job", "job_name", "job_id", "jobid", "id"),
    "team": ("team", "group", "vc", "project", "group_id"),
    "kind": ("kind", "gpu_kind", "gpu_type", "gpu_model", "gpu_spec"),
    "cpus": ("cpus", "cpu", "num_cpu", "cpu_num", "n_cpus"),
    "memory": ("memory", "mem", "ram"),
    "time_limit": ("time_limit", "limit", "walltime", "wall"),
    "preemptible": ("preemptible",),
    "priority": ("priority",),
    "after": ("after", "depends", "depends_on"),
}
NEEDED = ("submit", "duration", "gpus", "user")
SECONDS = {
    "s": 1, "sec": 1, "seconds": 1, "time": 1, "at": 1, "ms": 1e-3, "min": 60, "minutes": 60, "h": 3600, "hours": 3600, "days": 86400,
}  # fmt: skip
BYTES = {"bytes": 1, "kib": 2**10, "mib": MIB, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
UNITS: Mapping[str, Mapping[str, float]] = {
    "submit": SECONDS, "duration": SECONDS, "time_limit": SECONDS, "memory": BYTES, "cpus": {"milli": 1e-3},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    name: str  # as the file has it
    unit: float  # of a bare number


def read_trace(lines: Iterable[str], what: str) -> Trace:
    """`what`: how the file is called in errors."""
    rows = numbered(lines, what)
    _, header = next(rows, (1, []))
    if not header:
        raise BadInput(f"{what}: is empty", f"Its first line names the columns: {', '.join(NEEDED)}.")
    names = [plain(name) for name in header]
    is_openb = set(names) >= OPENB
    columns = {} if is_openb else columns_of(names, what)
    jobs, faults, left_out = list[Job](), list[tuple[int, str]](), 0
    for line, row in rows:
        if len(jobs) > MOST_JOBS:
            raise BadInput(f"{what}: has more than {MOST_JOBS} jobs", "Cut it into several.")
        cells = dict(zip(names, row, strict=False))
        try:
            job = openb_job(cells, line) if is_openb else csv_job(cells, columns, line)
        except BadInput as error:
            faults.append((line, str(error)))
            continue
        left_out += job is None
        jobs += [] if job is None else [job]
    if faults:
        refuse(faults, what)
    return checked(jobs, what, [f"{left_out} pods that were never started are left out"] if left_out else [])


def numbered(lines: Iterable[str], what: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that have anything in them."""
    rows = csv.reader(lines)
    try:
        for row in rows:
            if any(cell.strip() for cell in row):
                yield rows.line_num, row
    except csv.Error as error:
        raise BadInput(f"{what}: line {rows.line_num}: {error}", "Save it as CSV: text, with commas.") from error


def plain(name: str) -> str:
    return name.strip().lstrip("\ufeff").lower().replace(" ", "_").replace("-", "_")


def columns_of(names: list[str], what: str) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for field, aliases in ALIASES.items():
        for name in names:
            base, unit = split_unit(name, UNITS.get(field, {}))
            if field not in found and (name in aliases or base in aliases):
                found[field] = Column(name, 1 if name in aliases else unit)
    missing = [field for field in NEEDED if field not in found]
    if missing:
        has = f"found {', '.join(map(shown, names[:20]))}"
        raise BadInput(f"{what}: line 1: no column for {', '.join(missing)}; {has}", f"Name its columns {', '.join(NEEDED)}.")
    return found


def split_unit(name: str, units: Mapping[str, float]) -> tuple[str, float]:
    """`memory_mib` is `memory` in MiB; `submit_time` is `submit`."""
    base, _, unit = name.rpartition("_")
    return (base, units[unit]) if base and unit in units else (name, 1)


def csv_job(row: Mapping[str, str], columns: Mapping[str, Column], line: int) -> Job:
    def cell(field: str) -> str:
        column = columns.get(field)
        return "" if column is None else (row.get(column.name) or "").strip()

    def unit(field: str) -> float:
        column = columns.get(field)
        return 1 if column is None else column.unit

    for field in NEEDED:
        if not cell(field):
            raise BadInput(f"has no {field}")
    limit = duration_of(cell("time_limit"), unit("time_limit"), "time_limit") if cell("time_limit") else None
    if limit is not None and not limit:
        raise BadInput("time_limit: 0 is no time to run")
    request = Request(
        share=parse_share(cell("gpus")), gpu_kind=cell("kind")[:LONGEST_NAME] or None, time_limit=limit,
        cpus_milli=cpus_of(cell("cpus"), unit("cpus")), memory_bytes=memory_of(cell("memory"), unit("memory")),
        preemptible=truth_of(cell("preemptible")),
    )  # fmt: skip
    duration = duration_of(cell("duration"), unit("duration"), "duration")
    return Job(
        line, cell("name")[:LONGEST_NAME] or f"line-{line}", cell("user")[:LONGEST_NAME], time_of(cell("submit"), unit("submit")), duration,
        request, cell("team")[:LONGEST_NAME] or None, priority_of(cell("priority")), tuple(cell("after").replace(";", " ").split()),
    )  # fmt: skip
