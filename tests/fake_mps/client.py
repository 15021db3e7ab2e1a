"""A fake CUDA program: connects to the daemon in CUDA_MPS_PIPE_DIRECTORY, tells what came of it, and ends with its stdin.

As the real ones do, it uses the whole GPU without a word where no daemon is. `lost` is what CUDA calls error 806.
"""
import os
import socket
import sys
import threading


def main() -> None:
    talk = socket.socket(socket.AF_UNIX)
    try:
        talk.connect(os.path.join(os.environ["CUDA_MPS_PIPE_DIRECTORY"], "control"))
    except OSError:
        tell("whole")
    else:
        talk.sendall(b"CLIENT\n")
        threading.Thread(target=listen, args=(talk,), daemon=True).start()
    sys.stdin.read()


def listen(talk: socket.socket) -> None:
    while heard := talk.recv(4096):
        tell(heard.decode().strip())
    tell("lost")


def tell(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


main()
