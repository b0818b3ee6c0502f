"""The untrusted side: locks itself, waits for one program, runs it, reports, ends.

Started by the host as ``python -I -S main.py CHANNEL_FD SCRATCH_DIR LIMITS_JSON``. Boot and lock happen before the
program is known, so that a waiting child costs a run nothing. One program a process.

Two processes: the *guardian* keeps no channel, runs no program, and ends the *worker* with all its traces when the host
says so or dies; the worker locks itself and runs the program.
"""

import json
import os
import shutil
import signal
import socket
import sys
from typing import NoReturn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import filter
import frames
import lock
import run

_AWAITED = {signal.SIGTERM, signal.SIGCHLD}


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    scratch, limits = sys.argv[2], json.loads(sys.argv[3])
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)  # what comes before the guardian waits is kept for it
    lock.signal_when_parent_ends(signal.SIGTERM)
    if os.getppid() != limits["host"]:
        os._exit(0)  # it ended before it could be watched
    lock.dump_no_core()
    namespaces = limits["namespaces"] and lock.supported() and lock.new_namespaces(scratch, limits["file_bytes"])
    worker = os.fork()  # the first process of the new namespace
    if worker:
        _guard(worker, scratch, limits["cpu_s"])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
    lock.signal_when_parent_ends(signal.SIGKILL)
    os.setsid()  # out of the guardian's process group: a program can name no process outside its namespace, not even so
    lock.spare_memory()
    run.preload()
    os.chdir(scratch)
    if limits["landlock"] and lock.supported():
        lock.confine_files(scratch)
    lock.limit_resources(limits, namespaces=namespaces)
    if limits["seccomp"] and lock.supported():
        filter.refuse_system_calls()
    frames.send(channel, {"op": "ready", "layers": lock.locked(scratch)})
    try:
        start = frames.receive(channel)
    except EOFError:
        os._exit(0)
    run.run_program(channel, start, limits["frame_bytes"])


def _guard(worker: int, scratch: str, cpu_s: int) -> NoReturn:
    """Wait for the worker's end or the host's word (SIGTERM, also sent by the kernel when the host dies); clean up."""
    os.closerange(0, 256)  # the pipes' ends and the channel belong to the worker alone
    signal.sigwait(_AWAITED)
    os.kill(worker, signal.SIGKILL)  # the first of a namespace takes all others of it along
    _, status, used = os.wait4(worker, 0)
    lock.unmount(scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGKILL and used.ru_utime + used.ru_stime >= cpu_s:
        code = -signal.SIGXCPU  # the first of a namespace is deaf to it: the hard limit came
    if code < 0:  # die the same way, so that the host reads the true reason
        os.kill(os.getpid(), -code)
    os._exit(code)


main()
