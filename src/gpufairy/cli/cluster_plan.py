"""`fairy cluster plan`: from plain boxes to a cluster, written down line by line. Nothing is run."""
from typing import Annotated

import typer

from gpufairy.cli.options import AsJson, example_text, group
from gpufairy.cli.words import print_json
from gpufairy.core.k3s_plan import Lab, plan_k3s

EXAMPLE = "fairy cluster plan gpu01 gpu02 gpu03 > lab.sh"
NOT_TRIED = "These lines were not tried where gpufairy is made, which has no k3s: read them, and run them one by one."
ALONE = "To watch hosts needs no cluster: `fairy agent --server URL` on each is enough (docs/admin.md, watching hosts)."

app = group("From several boxes to one cluster.", EXAMPLE)


@app.callback()
def cluster() -> None:
    """From several boxes to one cluster."""


@app.command(epilog=example_text(EXAMPLE))
def plan(
    hosts: Annotated[list[str], typer.Argument(metavar="HOST...", help="As for ssh. The first gets the server beside its GPUs.")],
    *,
    whole: Annotated[bool, typer.Option("--whole", help="Whole GPUs alone, by NVIDIA's device plugin. Else parts, by our agents.")] = False,
    storage_class: Annotated[
        str, typer.Option("--storage-class", metavar="CLASS", help="Of homes, such as one on NFS. Else each stays on one node.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Print what makes a k3s cluster of these hosts and installs gpufairy there: a few lines for each. Nothing is run."""
    steps = plan_k3s(Lab(tuple(hosts), shares=not whole, storage_class=storage_class))
    if as_json:
        lines = [{"host": step.host or None, "about": step.about, "command": step.command} for step in steps]
        print_json({"tried": False, "note": NOT_TRIED, "items": lines})
        return
    print(f"# {NOT_TRIED}\n# {ALONE}")
    for step in steps:
        print(f"\n# {step.host or 'here'}: {step.about}\n{step.command}")
