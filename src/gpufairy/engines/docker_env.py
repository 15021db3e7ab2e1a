"""The environment of a container session, laid over what its image sets."""
from gpufairy.core.names import RESERVED_ENV
from gpufairy.core.session import Session
from gpufairy.core.share import show_parts
from gpufairy.core.sharing import by_mps
from gpufairy.engines.docker_facts import ImageFacts
from gpufairy.engines.process_env import allowed, visible_devices

# Set by images as a matter of course, and harmless: what libraries and driver features they need.
LEFT_TO_IMAGES = ("LD_LIBRARY_PATH", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_REQUIRE_", "NVIDIA_PRODUCT_NAME")
TAKEN_FROM_IMAGES = (*RESERVED_ENV, "BASH_ENV")  # would run inside our own programs, or widen what the session sees
OUR_URL = "http://127.0.0.1:8420"  # the porter's relay


def container_environment(session: Session, facts: ImageFacts, *, root: bool, cdi: bool) -> dict[str, str]:
    home, gpus = f"/home/{session.owner}", () if session.seat is None else session.seat.gpus
    user = "root" if root else session.owner
    # What `pip install --user` brought comes first, as in a login shell of Debian's; our tools last: an image's own are preferred.
    path = f"{home}/.local/bin:{facts.path}:/opt/fairy/bin"
    env = {name: "" for name in facts.env if taken(name)}
    env |= {
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": facts.shell,
        "PATH": path,
        "PIP_CACHE_DIR": f"{home}/.cache/pip",  # kept with the home, whatever the image prefers
        "PIP_FIND_LINKS": "/shared/wheels",  # what the admin has put there need not be fetched once for each of us
        "CONDA_PKGS_DIRS": f"{home}/.conda/pkgs,/shared/conda/pkgs",  # likewise; conda writes to the first alone
        "PYTHONUNBUFFERED": "1",  # else a follower of the log sees nothing for the first 8 KiB
        **({} if "LANG" in facts.env or "LC_ALL" in facts.env else {"LANG": "C.UTF-8"}),
        **dict(allowed(session.request.env)),
        "FAIRY_SESSION": session.name,
        "FAIRY_SESSION_ID": session.id,
        "FAIRY_URL": OUR_URL,
        "FAIRY_TOKEN_FILE": "/run/fairy/token",
        "FAIRY_RESULTS": "/results",
        "FAIRY_PATH": path,  # for login shells: see tools.py
        "FAIRY_GPUS": ",".join(f"{gpu.index}:{gpu.profile or show_parts(gpu.parts)}" for gpu in gpus),
        **visible_devices(gpus),
    }
    if cdi:  # the devices are in already; anything else here would make NVIDIA's own hook bring them in a second time
        env["NVIDIA_VISIBLE_DEVICES"] = "void"
    if any(map(by_mps, gpus)):
        env["CUDA_MPS_PIPE_DIRECTORY"] = "/run/fairy/mps"  # the share library sets it too, in programs that it is in
    if any(gpu.simulated for gpu in gpus):
        env["FAIRY_SIMULATED"] = "1"
        env["NVIDIA_VISIBLE_DEVICES"] = "void"  # NVIDIA's hook would look for them, and refuse to start the container
    return env


def taken(name: str) -> bool:
    return name.startswith(TAKEN_FROM_IMAGES) and not name.startswith(LEFT_TO_IMAGES)
