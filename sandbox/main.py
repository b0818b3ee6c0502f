"""The untrusted side: locks itself, waits for one program, runs it, reports, ends.

Started by the host as ``python -I -S main.py CHANNEL_FD SCRATCH_DIR LIMITS_JSON``. Boot and lock happen before the
program is known, so that a waiting child costs a run nothing. One program a process.
"""

import json
import os
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import frames
import lock
import run


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    scratch, limits = sys.argv[2], json.loads(sys.argv[3])
    lock.die_with_parent()
    namespaces = limits["namespaces"] and lock.supported() and lock.new_namespaces()
    if namespaces:
        _become_first_of_namespace()
    run.preload()
    os.chdir(scratch)
    if limits["landlock"] and lock.supported():
        lock.confine_files(scratch)
    lock.limit_resources(limits)
    frames.send(channel, {"op": "ready", "layers": lock.locked(scratch, namespaces=namespaces)})
    try:
        start = frames.receive(channel)
    except EOFError:
        os._exit(0)
    run.run_program(channel, start)


def _become_first_of_namespace() -> None:
    """Fork into the new pid namespace; the outer process only waits and passes the exit status on."""
    child = os.fork()
    if child == 0:
        lock.die_with_parent()
        return
    os.closerange(0, 256)  # the pipes' ends and the channel belong to the child alone
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):  # die the same way, so that the host reads the true reason
        signum = os.WTERMSIG(status)
        signal.signal(signum, signal.SIG_DFL) if signum not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), signum)
    os._exit(os.waitstatus_to_exitcode(status))


main()
