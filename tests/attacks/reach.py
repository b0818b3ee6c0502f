# ruff: noqa: E501 - programs stand as they are
"""What lies outside: files, the environment, the network, other processes, and what might be left for later."""

from __future__ import annotations

from typing import Any

from tests.attacks.record import LIBC, Attack

ENDED = ("finished", "killed")


def _refused(name: str, family: str, program: str, **more: Any) -> Attack:
    return Attack(name, family, program, **{"refused": True, **more})


FILES = [
    _refused("the secret file, by every door", "files", """
import os, io, pathlib, posix
answer = tried(lambda: open(SECRET_FILE).read(), lambda: os.open(SECRET_FILE, os.O_RDONLY), lambda: io.open(SECRET_FILE),
               lambda: pathlib.Path(SECRET_FILE).read_text(), lambda: posix.open(SECRET_FILE, 0),
               lambda: os.open(SECRET_FILE, os.O_PATH), lambda: os.open(SECRET_FILE, os.O_RDWR),
               lambda: os.truncate(SECRET_FILE, 0), lambda: os.chmod(SECRET_FILE, 0o777))
""", control="loot"),
    _refused("the machine's own files", "files", """
import os
answer = tried(*[lambda p=p: open(p, "rb").read(1000) for p in (
    "/etc/passwd", "/etc/shadow", "/etc/hostname", "/etc/resolv.conf", "/root/.bashrc", "/root/.ssh/id_rsa",
    "/var/run/secrets/kubernetes.io/serviceaccount/token", "/run/docker.sock", "/.dockerenv", "/boot/config")],
    lambda: os.listdir("/root"), lambda: os.listdir("/etc"), lambda: os.listdir("/home"), lambda: os.listdir("/tmp"))
""", control="loot"),
    _refused("our own sources", "files", """
import os
answer = tried(lambda: os.listdir(REPOSITORY), lambda: open(REPOSITORY + "/pyproject.toml").read(),
               lambda: open(REPOSITORY + "/sandbox/zygote.py").read(), lambda: os.scandir(REPOSITORY + "/tests"))
"""),
    _refused("/proc", "files", """
import os
pids = ["self", "1", "thread-self", str(HOST), str(os.getpid()), str(os.getppid())]
answer = tried(*[lambda p=p, n=n: open(f"/proc/{p}/{n}", "rb").read(4000)
                 for p in pids for n in ("environ", "cmdline", "maps", "mem", "status", "cwd/x", "root" + SECRET_FILE)],
               *[lambda p=p: os.listdir(f"/proc/{p}/fd") for p in pids], lambda: os.listdir("/proc"),
               *[lambda n=n: open("/proc/" + n).read() for n in (
                   "mounts", "net/tcp", "kallsyms", "cpuinfo", "sys/kernel/core_pattern", "keys", "modules", "kcore")])
""", control="loot"),
    _refused("descriptors opened again by name", "files", """
import os
own = {1: "its own", 2: "its own"}  # reading what it prints itself is no harm
answer = tried(*[lambda n=n: open(f"{where}/{n}", "rb") for where in ("/proc/self/fd", "/dev/fd") for n in range(8) if n not in own],
               lambda: open("/dev/stdin"), lambda: open("/dev/stdout", "w"), lambda: os.readlink("/proc/self/fd/3"),
               lambda: open("/proc/self/fd/1", "w"), lambda: open("/proc/self/fd/2", "ab"))
"""),
    _refused("up out of the library", "files", """
import os, sysconfig
library = sysconfig.get_path("stdlib")
up = "/.." * 12
def by_folder(path):
    folder = os.open(library, os.O_RDONLY | os.O_DIRECTORY)
    return os.read(os.open(path, 0, dir_fd=folder), 50)
answer = tried(lambda: open(library + up + SECRET_FILE).read(), lambda: by_folder("../../../../../../.." + SECRET_FILE),
               lambda: by_folder(SECRET_FILE), lambda: os.listdir(library + up), lambda: os.chdir(library),
               lambda: os.fchdir(os.open(library, os.O_RDONLY)), lambda: os.chroot(library) if False else os.listdir("/"),
               lambda: by_folder("../../../../../../../proc/self/environ")) if os.path else []
answer = [made for made in answer if made[0] == "refused" or "lib" not in made[1]] or [["refused"]]
"""),
    _refused("links", "files", """
import os, sysconfig
there = [DROP, "/tmp", "/dev/shm", ".", sysconfig.get_path("stdlib"), "/"]
answer = tried(*[lambda d=d: os.symlink(SECRET_FILE, f"{d}/{MARK}-link") for d in there],
               *[lambda d=d: os.link(SECRET_FILE, f"{d}/{MARK}-hard") for d in there],
               lambda: os.rename(SECRET_FILE, SECRET_FILE + "2"), lambda: os.unlink(SECRET_FILE),
               lambda: os.replace(DROP, DROP + "2"))
"""),
    _refused("special files", "files", """
import os, stat
answer = tried(lambda: os.mkfifo(f"{DROP}/{MARK}"), lambda: os.mknod(f"{DROP}/{MARK}", 0o666 | stat.S_IFCHR, os.makedev(1, 1)),
               lambda: os.mkdir(f"{DROP}/{MARK}"), *[lambda d=d: open("/dev/" + d, "rb") for d in (
               "mem", "kmsg", "kvm", "fuse", "null", "zero", "tty", "ptmx", "sda", "vda", "loop-control", "net/tun",
               "userfaultfd", "input/event0", "shm", "hugepages")])
"""),
    _refused("writing wherever one may stand", "files", """
import os, sysconfig
places = [DROP, "/tmp", "/var/tmp", "/dev/shm", ".", "/", "/run", sysconfig.get_path("stdlib"),
          sysconfig.get_path("stdlib") + "/site-packages", sysconfig.get_path("stdlib") + "/json/__pycache__", REPOSITORY]
answer = tried(*[lambda d=d: open(f"{d}/{MARK}", "w") for d in places],
               *[lambda d=d: os.open(d, os.O_TMPFILE | os.O_WRONLY) for d in places],
               *[lambda d=d: os.open(f"{d}/{MARK}", os.O_CREAT) for d in places],
               lambda: __import__("tempfile").mkdtemp(), lambda: __import__("tempfile").TemporaryFile())
"""),
    _refused("planted for the host to import", "files", """
import os, sysconfig
library = sysconfig.get_path("stdlib")
answer = tried(*[lambda p=p: open(p, "w").write("import os; os.system('id')") for p in (
    REPOSITORY + "/conftest.py", REPOSITORY + f"/{MARK}.py", REPOSITORY + "/sitecustomize.py",
    library + "/sitecustomize.py", library + "/site-packages/x.pth", library + "/json/decoder.py",
    REPOSITORY + "/sandbox/jail.py", REPOSITORY + "/.git/hooks/pre-commit", DROP + f"/{MARK}.py")])
"""),
    _refused("files in memory", "files", """
import os
answer = tried(lambda: os.memfd_create("x"), lambda: os.memfd_create("x", os.MFD_ALLOW_SEALING),
               lambda: __import__("multiprocessing.shared_memory").shared_memory.SharedMemory(create=True, size=10))
"""),
    _refused("attributes and times", "files", """
import os, sysconfig
path = sysconfig.get_path("stdlib") + "/os.py"
answer = tried(lambda: os.setxattr(path, "user.x", b"y"), lambda: os.utime(path), lambda: os.chmod(path, 0o777),
               lambda: os.chown(path, 0, 0), lambda: os.getxattr(path, "user.x"), lambda: os.statvfs("/"), lambda: os.sync() or os.readlink("/x"))
"""),
    Attack("the disk filled", "files", """
import os
answer = []
for place in (DROP, "/tmp", "/dev/shm", "."):
    try:
        with open(f"{place}/{MARK}", "wb") as file:
            for _ in range(100):
                file.write(bytes(1 << 20))
        answer.append(place)
    except OSError:
        pass
""", check=lambda outcome, broker: outcome.value == [], control="write"),
]  # fmt: skip

ENVIRONMENT = [
    Attack("the environment, by every door", "environment", LIBC + """
answer = [dict(os.environ), {k.decode(): v.decode() for k, v in os.environb.items()}, os.getenv("PLANTED_TOKEN")]
first = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ")
n = 0
while first and first[n]:
    answer.append(first[n].decode())
    n += 1
""", control="loot"),
    Attack("the bottom of the stack", "environment", LIBC + """
import sys
first = ctypes.c_void_p.in_dll(libc, "__libc_stack_end").value if hasattr(libc, "__libc_stack_end") else None
answer = [sys.argv, sys.orig_argv[:3]]
if first:
    answer.append(ctypes.string_at(first, 1500).decode("latin-1"))
""", ends=("finished", "killed", "raised")),
    Attack("one's own memory, all of it", "environment", LIBC + """
import gc
gc.unfreeze()
answer = [o for o in gc.get_objects() if isinstance(o, dict) and any(isinstance(k, str) and "TOKEN" in k for k in o)]
answer = [repr(a)[:500] for a in answer][:20]
"""),
    Attack("who and where one is", "environment", """
import os, sys
answer = tried(os.getcwd, os.getlogin, lambda: __import__("pwd").getpwall(), lambda: __import__("getpass").getuser(),
               lambda: os.listdir("."), lambda: __import__("platform").platform(), lambda: os.path.expanduser("~"))
"""),
]  # fmt: skip

NETWORK = [
    _refused("loopback", "network", """
import socket
answer = tried(lambda: socket.create_connection(("127.0.0.1", TCP), 1), lambda: socket.create_connection(("localhost", TCP), 1),
               lambda: socket.create_connection(("0.0.0.0", TCP), 1), lambda: socket.create_server(("127.0.0.1", 0)))
""", control="contact"),
    _refused("loopback over IPv6", "network", """
import socket
answer = tried(lambda: socket.create_connection(("::1", TCP6), 1), lambda: socket.socket(socket.AF_INET6))
"""),
    _refused("UDP", "network", """
import socket
answer = tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", UDP)))
""", control="contact"),
    _refused("an abstract socket", "network", """
import socket
answer = tried(lambda: socket.socket(socket.AF_UNIX).connect(ABSTRACT),
               lambda: socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b"x", ABSTRACT),
               lambda: socket.socketpair()[0].connect(ABSTRACT))
""", control="contact"),
    _refused("a named socket", "network", """
import socket
answer = tried(lambda: socket.socket(socket.AF_UNIX).connect(NAMED),
               lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", NAMED_UDP),
               lambda: socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b"x", NAMED_UDP),
               lambda: socket.socketpair(type=socket.SOCK_DGRAM)[0].sendmsg([b"x"], [], 0, NAMED_UDP),
               lambda: socket.socketpair(type=socket.SOCK_DGRAM)[0].connect(NAMED_UDP))
""", control="contact"),
    _refused("the cloud's metadata address", "network", """
import socket
def request(): return __import__("urllib.request").request
answer = tried(lambda: request().urlopen("http://169.254.169.254/latest/meta-data/", timeout=1).read(),
               lambda: __import__("http.client").client.HTTPConnection("169.254.169.254", timeout=1).request("GET", "/"),
               lambda: socket.create_connection(("fd00:ec2::254", 80), 1))
"""),
    _refused("names", "network", """
import socket
answer = tried(lambda: socket.getaddrinfo("example.com", 80), lambda: socket.gethostbyname("example.com"),
               lambda: socket.getaddrinfo("x" * 50 + ".example.com", None), lambda: socket.gethostbyaddr("127.0.0.1"))
"""),
    _refused("sockets of every family", "network", LIBC + """
import socket
answer = tried(*[lambda f=f, t=t: syscall(41, f, t, 0) for f in range(1, 46) for t in (1, 2, 3, 5)])
"""),
    _refused("pairs of other families", "network", LIBC + """
pair = (ctypes.c_int * 2)()
answer = tried(*[lambda f=f, t=t: syscall(53, f, t, 0, pair) for f in [*range(2, 46), 0, 2**32 + 2] for t in (1, 2, 5)])
"""),
    _refused("asyncio, HTTP, mail", "network", """
import asyncio
async def reach(): await asyncio.open_connection("127.0.0.1", TCP)
async def serve(): return (await asyncio.start_server(print, "127.0.0.1", 0)).sockets[0]
answer = tried(lambda: asyncio.run(reach()), lambda: asyncio.run(serve()), lambda: __import__("smtplib").SMTP("127.0.0.1", TCP),
               lambda: __import__("ftplib").FTP("127.0.0.1"))
"""),
]  # fmt: skip

PROCESSES = [
    _refused("a new process, by every door", "processes", """
import os, subprocess
answer = tried(os.fork, lambda: os.posix_spawn("/bin/true", ["true"], {}), lambda: subprocess.run(["/bin/true"]),
               lambda: os.popen("id").read() or 1 / 0, lambda: __import__("pty").fork(), lambda: subprocess.run("id", shell=True),
               lambda: __import__("multiprocessing").Process(target=print).start(), lambda: os.forkpty(),
               lambda: os.execv("/bin/true", ["true"]), lambda: os.execve("/bin/sh", ["sh", "-c", "id"], {}))
"""),
    Attack("a shell", "processes", """
import os
answer = [os.system("cat " + SECRET_FILE + " > " + DROP + "/" + MARK)]
""", control="write", check=lambda outcome, broker: outcome.value != [0]),
    Attack("a daemon by two forks", "processes", """
import os, time
answer = "none"
try:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(0.2)
            open(DROP + "/" + MARK, "w").write("late")
        os._exit(0)
    time.sleep(0.5)
except OSError as error:
    answer = type(error).__name__
""", check=lambda outcome, broker: outcome.value != "none", control="write"),
    _refused("signals to others", "processes", LIBC + """
import signal, os
targets = [HOST, os.getppid(), -1, 0, -HOST, 2, HOST + 1, -2**31, 2**31 - 1]
targets = [t for t in targets if t != os.getpid()]
answer = tried(*[lambda t=t: os.kill(t, 0) for t in targets], *[lambda t=t: syscall(62, t, signal.SIGKILL) for t in targets],
               lambda: os.killpg(0, 9), lambda: syscall(200, HOST, 9), lambda: syscall(234, HOST, HOST, 9),
               lambda: syscall(129, HOST, 9, None), lambda: syscall(297, HOST, HOST, 9, None),
               lambda: syscall(434, HOST, 0), lambda: os.pidfd_open(HOST), lambda: signal.pidfd_send_signal(3, 9))
"""),
    Attack("the death signal switched off", "processes", LIBC + """
answer = tried(lambda: syscall(157, 1, 0, 0, 0, 0), lambda: syscall(157, 4, 1, 0, 0, 0), lambda: syscall(157, 36, 1, 0, 0, 0),
               lambda: os.setsid(), lambda: os.setpgid(0, 0))
""", refused=True),
    Attack("stopping itself", "processes", """
import os, signal
os.kill(os.getpid(), signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGTSTP)
while True: pass
""", ends=("limit",), limits={"wall_s": 0.3}),
    _refused("priorities and limits", "processes", LIBC + """
import resource
answer = tried(lambda: os.nice(-5), lambda: os.sched_setaffinity(0, {0}), lambda: os.setpriority(0, 0, -20),
               lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99)),
               lambda: resource.setrlimit(resource.RLIMIT_AS, (-1, -1)), lambda: resource.setrlimit(resource.RLIMIT_CPU, (99, 99)),
               lambda: resource.prlimit(HOST, resource.RLIMIT_NOFILE), lambda: resource.prlimit(HOST, resource.RLIMIT_NOFILE, (1, 1)),
               lambda: syscall(302, 0, 9, ctypes.byref((ctypes.c_ulong * 2)(2**40, 2**40)), None))
"""),
    _refused("another user", "processes", """
import os
answer = tried(lambda: os.setgroups([]), lambda: os.setresuid(0, 0, 0), lambda: os.setreuid(0, 0), lambda: os.seteuid(0),
               lambda: os.setresgid(0, 0, 0), lambda: os.setregid(0, 0), lambda: os.setegid(0), lambda: os.initgroups("root", 0))
"""),
]  # fmt: skip

ATTACKS = [*FILES, *ENVIRONMENT, *NETWORK, *PROCESSES]
