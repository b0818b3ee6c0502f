# ruff: noqa: E501 - programs stand as they are
"""Ways out of a container, and to whoever is near: the parent of programs, its socket, the engine, the kernel's switches."""

from __future__ import annotations

from typing import Any

from tests.attacks.record import CHANNEL, LIBC, Attack


def _refused(name: str, program: str, **more: Any) -> Attack:
    return Attack(name, "ways out", program, **{"refused": True, **more})


ATTACKS = [
    _refused("the socket that the host came by", """
import os, socket
def dial(path): return socket.socket(fileno=os.dup(3)).connect(path) or "connected"
def dial_anew(path): return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(path) or "connected"
answer = tried(*[lambda p=p, d=d: d(p) for p in ("/run/atc/control", "/run/atc", "/proc/1/fd/4") for d in (dial, dial_anew)],
               lambda: os.listdir("/run/atc"), lambda: open("/run/atc/control", "w"), lambda: os.mkfifo("/run/atc/control"),
               lambda: os.symlink(SECRET_FILE, "/run/atc/control"), lambda: os.mkdir("/run/atc/" + MARK),
               lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)[0].bind("/run/atc/control"),
               lambda: socket.socketpair()[0].bind(DROP + "/" + MARK), lambda: os.unlink("/run/atc/control"))
"""),
    _refused("what the parent of programs holds", """
import os
parents = {"1", str(os.getppid()), str(HOST)}
answer = tried(*[lambda p=p, n=n, flags=flags: os.open(f"/proc/{p}/fd/{n}", flags) for p in parents for n in range(12) for flags in (os.O_RDONLY, os.O_RDWR)],
               *[lambda p=p, n=n: open(f"/proc/{p}/{n}", "rb").read(99) for p in parents
                 for n in ("mem", "maps", "environ", "root" + SECRET_FILE, "cwd" + SECRET_FILE, "exe", "stack", "syscall", "auxv")],
               *[lambda p=p, n=n: open(f"/proc/{p}/{n}", "w") for p in parents for n in ("mem", "oom_score_adj", "comm", "attr/current", "clear_refs", "timens_offsets")],
               *[lambda p=p, n=n: os.listdir(f"/proc/{p}/{n}") for p in parents for n in ("root", "fd", "map_files", "ns")])
"""),
    _refused("the engine", """
import os, socket
paths = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock")
answer = tried(*[lambda p=p: socket.socket(socket.AF_UNIX).connect(p) for p in paths], *[lambda p=p: open(p) for p in paths],
               *[lambda p=p: socket.socketpair()[0].connect(p) for p in paths],
               lambda: socket.create_connection(("127.0.0.1", 2375), 1), lambda: socket.create_connection(("172.17.0.1", 2376), 1))
"""),
    _refused("the kernel's switches", """
answer = tried(*[lambda p=p: open(p, "w").write("|/bin/false") for p in (
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger",
    "/sys/kernel/uevent_helper", "/proc/self/uid_map", "/proc/self/oom_score_adj", "/proc/self/attr/exec", "/proc/sys/vm/drop_caches",
    "/proc/sys/kernel/ns_last_pid", "/sys/power/state", "/sys/fs/selinux/enforce", "/proc/sys/kernel/hostname")])
"""),
    _refused("the control groups", """
import os
base = "/sys/fs/cgroup"
answer = tried(lambda: os.listdir(base), lambda: os.mkdir(f"{base}/memory/{MARK}"), lambda: os.mkdir(f"{base}/{MARK}"),
               *[lambda p=p: open(f"{base}/{p}", "w").write("1") for p in (
               "release_agent", "notify_on_release", "cgroup.procs", "memory/memory.limit_in_bytes", "memory/release_agent", "pids/pids.max",
               "memory.max", "pids.max", "devices/devices.allow", "devices.allow", "rdma/release_agent", "cgroup.kill", "freezer/freezer.state")])
"""),
    _refused("devices, terminals and queues", LIBC + """
answer = tried(*[lambda p=p: open("/dev/" + p, "rb") for p in ("pts/0", "ptmx", "console", "tty", "mqueue/x", "full", "random", "core", "fd/0")],
               lambda: os.listdir("/dev/mqueue"), lambda: os.openpty(), lambda: syscall(240, b"/" + MARK.encode(), 0o102, 0o600, 0),
               lambda: syscall(133, DROP.encode() + b"/dev", 0o60666, 0x100), lambda: os.open("/dev/mqueue/" + MARK, os.O_CREAT | os.O_RDWR))
"""),
    _refused("the image is written to", """
import os, sys, sysconfig
folders = ["/opt/atc", "/opt/atc/sandbox", "/opt/atc/packages", "/etc", "/usr/local/bin", "/work", "/", os.path.dirname(os.__file__)]
answer = tried(*[lambda f=f: open(f"{f}/{MARK}.py", "w") for f in folders], *[lambda f=f: os.mkdir(f"{f}/{MARK}") for f in folders],
               lambda: open("/opt/atc/sandbox/zygote.py", "r+"), lambda: open(os.__file__, "r+"), lambda: open("/etc/ld.so.preload", "w"))
"""),
    Attack("words of the host's to the parent, on one's own channel", "ways out", CHANNEL + """
import socket
for body in (b'{"op": "spawn", "id": 1}', b'{"op": "kill", "id": 1}', b'{"op": "ended", "id": 1, "status": 0}'):
    put(body)
    put(frame(body))
time.sleep(60)
""", ends=("violation",), check=lambda outcome, broker: broker.calls == []),
    _refused("a descriptor from a neighbour", LIBC + """
import socket
one, two = socket.socketpair()
answer = tried(lambda: socket.send_fds(one, [b"x"], [3]), lambda: two.recvmsg(1, 1000),
               lambda: syscall(438, 3, 0, 0) if False else syscall(434, os.getppid(), 0), lambda: one.setsockopt(1, 16, 1),
               lambda: socket.socket(fileno=os.dup(3)).getsockopt(1, 17, 12), lambda: socket.socket(fileno=os.dup(3)).getsockopt(1, 59, 1024))
"""),
]  # fmt: skip
