"""The isolation probe: run inside a session, tries every way to get more than its share, and prints a line of JSON for each.

It needs no rights, changes nothing, takes at most a little more than its share and gives it back. What the figures mean is judged outside.
"""
import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpufairy.core.tried import ENOUGH_OVER_BYTES, tried_to_plain
from gpufairy.devices.probe_children import ask, holding
from gpufairy.devices.probe_cuda import SONAME, NotHere, find_library
from gpufairy.devices.probe_tries import PLAIN, all_tried, own_share
from gpufairy.devices.probe_way import FACTS, Task

STATIC = Path(sys.prefix, "libexec", "probe-static")  # among our own tools


def main() -> None:
    arguments = parsed()
    try:
        library = find_library(SONAME)
    except NotHere as no:
        say({"error": str(no)})
        return
    task = Task(PLAIN, library, arguments.gpu, arguments.device or arguments.gpu, tuple(arguments.other))
    if arguments.hold:
        hold(replace(task, enough_bytes=arguments.hold))
    elif arguments.own_share:
        say(tried_to_plain(own_share(replace(task, enough_bytes=arguments.memory_bytes))))
    else:
        say({"facts": ask(replace(task, way=FACTS))})
        for tried in all_tried(replace(task, enough_bytes=arguments.memory_bytes + ENOUGH_OVER_BYTES), arguments.static):
            say(tried_to_plain(tried))
    say({"done": True})


def parsed() -> argparse.Namespace:
    reader = argparse.ArgumentParser(description="Tries to get more than this session's share of its GPU.")
    reader.add_argument("--gpu", required=True, help="UUID of the GPU that the session has a share of")
    reader.add_argument("--device", default="", help="UUID of its MIG instance")
    reader.add_argument("--other", action="append", default=[], help="UUID of another GPU of the machine; repeatable")
    reader.add_argument("--memory-bytes", type=int, required=True, help="its share of the memory")
    reader.add_argument("--static", default=str(STATIC), help="the static program")
    reader.add_argument("--hold", type=int, default=0, metavar="BYTES", help="only take so much, and hold it until the input ends")
    reader.add_argument("--own-share", action="store_true", help="only see how much of its share it gets")
    return reader.parse_args()


def hold(task: Task) -> None:
    with holding(task) as answer:
        say({"held_bytes": answer.get("got_bytes"), "error": answer.get("error", "")})
        sys.stdin.read()


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
