"""Python as it is on macOS, as far as that can be pretended: what only Linux has is taken away before anything is imported.

/proc stays, and so does Linux beneath: a program that would call into it by ctypes does so here.
"""
import fcntl
import os
import platform
import resource
import select
import signal
import socket
import sys
import sysconfig

ONLY_LINUX = {
    socket: "TCP_KEEPIDLE TCP_USER_TIMEOUT TCP_QUICKACK TCP_DEFER_ACCEPT TCP_INFO TCP_CORK TCP_SYNCNT TCP_LINGER2 SO_PEERCRED SO_MARK "
    "SO_BINDTODEVICE SOCK_CLOEXEC SOCK_NONBLOCK AF_NETLINK AF_PACKET AF_ALG AF_CAN AF_VSOCK SO_PASSCRED SCM_CREDENTIALS IP_TRANSPARENT",
    os: "sched_getaffinity sched_setaffinity sched_getparam sched_setscheduler pidfd_open memfd_create eventfd eventfd_read eventfd_write "
    "copy_file_range splice setns unshare getxattr setxattr listxattr removexattr O_PATH O_TMPFILE O_DIRECT O_NOATIME posix_fadvise "
    "posix_fallocate fdatasync pipe2 getresuid getresgid setresuid setresgid timerfd_create MFD_CLOEXEC CLONE_NEWNET CLONE_NEWNS",
    signal: "pidfd_send_signal SIGRTMIN SIGRTMAX sigtimedwait sigwaitinfo SIGPWR SIGSTKFLT SIGPOLL SIGCLD",
    select: "epoll EPOLLIN EPOLLOUT EPOLLERR EPOLLHUP EPOLLET EPOLL_CLOEXEC",
    resource: "prlimit RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_MSGQUEUE RLIMIT_SIGPENDING RLIMIT_OFILE",
    fcntl: "F_ADD_SEALS F_GET_SEALS F_OFD_SETLK F_OFD_GETLK F_OFD_SETLKW F_SETPIPE_SZ F_GETPIPE_SZ F_NOTIFY F_SETLEASE",
}  # fmt: skip

for module, names in ONLY_LINUX.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
os.environ.setdefault("_PYTHON_SYSCONFIGDATA_NAME", sysconfig._get_sysconfigdata_name())  # of this Python, whatever it is called below
sys.platform = "darwin"
os.uname = lambda: os.uname_result(("Darwin", "macbook.local", "24.0.0", "Darwin Kernel Version 24.0.0", "arm64"))
platform.system = lambda: "Darwin"
