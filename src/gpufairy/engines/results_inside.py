"""Results of a session read where they lie, in a pod of their owner's and with their owner's rights: this runs in there.

    results_inside tar|list|read FOLDER RUN [MOST|PATH]
"""
import json
import sys
from dataclasses import asdict
from pathlib import Path

from gpufairy.core.errors import NoSuchThing
from gpufairy.engines.archive import tar_chunks
from gpufairy.engines.result_folder import listed, read_out, size_of


def main(what: str, folder: str, run: str, more: str = "") -> None:
    out, parent = sys.stdout.buffer, Path(folder)
    if what == "tar":
        out.writelines(tar_chunks(parent, run))
    elif what == "list":
        out.write(json.dumps(asdict(listed(parent, run, int(more)))).encode())
    else:
        try:
            size = size_of(parent, run, more)
        except (NoSuchThing, OSError):
            out.write(b"\n")
            return
        out.write(f"{size}\n".encode())
        out.writelines(read_out(parent, run, more, size))


if __name__ == "__main__":
    main(*sys.argv[1:])
