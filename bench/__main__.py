"""`./test bench` lists the benchmarks, `./test bench NAME [--json]` runs one."""
import importlib
import json
import pkgutil
import sys
from pathlib import Path

import bench
from bench.figures import Report

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # container engines are started as the tests start theirs
# what the benchmarks are made with
PARTS = (
    "__main__", "agent_crowd", "agent_return", "figures", "footprint", "forecast_lab", "gpu_share_worker", "kube_client_worker",
    "kube_crowd", "kube_engine_worker", "lab", "login_crowd", "openb", "page_crowd", "placers", "ports", "process_tree", "server",
    "slurm", "ssh_clients", "steady", "stranger_crowd", "web_campus", "web_lab", "web_tabs",
)  # fmt: skip


def main(arguments: list[str]) -> int:
    names = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if module.name not in PARTS)
    wanted = [word for word in arguments if not word.startswith("-")]
    if not wanted:
        for name in names:
            print(f"{name:<14} {(importlib.import_module(f'bench.{name}').__doc__ or '').splitlines()[0]}")
        return 0
    if wanted[0] not in names:
        print(f"no benchmark {wanted[0]!r}; there are: {', '.join(names)}", file=sys.stderr)
        return 2
    report: Report = importlib.import_module(f"bench.{wanted[0]}").measure()
    print(json.dumps(report.plain()) if "--json" in arguments else report.words())
    return 0


sys.exit(main(sys.argv[1:]))
