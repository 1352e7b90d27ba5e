"""Ends the processes of a run once nobody uses the run any more.

usage: watchdog.py RUN_DIR LINGER_SECONDS

Whoever uses a run holds a shared lock on RUN_DIR/lease. The system takes that lock back however its holder ends, a
SIGKILL included, so the exclusive lock is granted here exactly when the last user is gone. LINGER_SECONDS is how long a
run is kept for a next user. A run with a file named "keep" outlives its users.

A process enters its own id into RUN_DIR/children before it becomes the broker or the local AWS. Moving that folder
away first therefore leaves no gap: a process that has not entered itself by then never starts.
"""

import fcntl
import os
import signal
import sys
import time
from pathlib import Path

GRACE_SECONDS = 10


def main() -> None:
    run, linger = Path(sys.argv[1]), float(sys.argv[2])
    with open(run / "lease") as lease:
        wait_for_last_user(lease, linger)
        if not (run / "keep").exists():
            end(run)


def wait_for_last_user(lease, linger: float) -> None:
    while True:
        fcntl.flock(lease, fcntl.LOCK_EX)
        if not linger:
            return
        fcntl.flock(lease, fcntl.LOCK_UN)
        time.sleep(linger)
        try:
            fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            continue


def end(run: Path) -> None:
    ended = run / "ended"
    try:
        (run / "children").rename(ended)
    except FileNotFoundError:
        return  # stopped by its user
    groups = [int(entry.name) for entry in ended.iterdir() if belongs(int(entry.name), run)]
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for group in groups:
            try:
                os.killpg(group, sign)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + GRACE_SECONDS
        while any(alive(group) for group in groups) and time.monotonic() < deadline:
            time.sleep(0.05)


def belongs(pid: int, run: Path) -> bool:
    """False only for a stranger that was given the id of a process of this run after that one ended."""
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(run)
    except OSError:
        return True


def alive(group: int) -> bool:
    """A process that has ended and waits to be reaped by its parent counts as gone."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/stat") as stat:
                    state, _, of_group = stat.read().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(of_group) == group and state != "Z":
                return True
    return False


main()
