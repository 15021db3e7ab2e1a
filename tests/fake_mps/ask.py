"""The fake nvidia-cuda-mps-control without -d: sends stdin's commands to the daemon. Asked often, so it imports next to nothing."""
import _socket
import os
import sys


def main(folder: str) -> int:
    if os.path.exists(f"{folder}/hangs"):
        sys.stdin.close()
        os.execvp("sleep", ["sleep", "infinity"])
    for command in sys.stdin.read().splitlines():
        talk = connect(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
        if talk is None:
            sys.stderr.write("Cannot find MPS control daemon process\n")
            return 1
        talk.send(f"UI {command}\n".encode())
        while heard := talk.recv(4096):
            sys.stdout.write(heard.decode())
        talk.close()
    return 0


def connect(pipe: str) -> _socket.socket | None:
    for name in ("control_privileged", "control"):
        talk = _socket.socket(_socket.AF_UNIX)
        try:
            talk.connect(f"{pipe}/{name}")
        except OSError:
            talk.close()
            continue
        return talk
    return None


sys.exit(main(sys.argv[1]))
