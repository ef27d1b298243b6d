"""Temporary files in memory, where there is room: histories would wait for the disk most of their time. The folder is locked
while this process lives, and what killed ones left is removed by the next (tests/main.cpp)."""
import atexit
import fcntl
import os
import pathlib
import shutil
import tempfile

MEMORY, PREFIX = pathlib.Path("/dev/shm"), "fastkernels-tests-"


def locked(path):
    """A descriptor that holds the lock of a folder, or None where another process has it."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    except OSError:
        os.close(file)
        return None


def remove_those_left():
    for path in MEMORY.glob(PREFIX + "*"):
        file = locked(path)
        if file is not None:
            if os.fstat(file).st_uid == os.geteuid():
                shutil.rmtree(path, ignore_errors=True)
            os.close(file)


def make():
    for _ in range(10):
        try:
            path = tempfile.mkdtemp(prefix=PREFIX, dir=MEMORY)
        except OSError:  # without a free inode, for one
            return
        if locked(path) is not None and os.path.exists(path):  # else taken for one that was left, before it was locked
            os.chmod(path, 0o1777)
            atexit.register(shutil.rmtree, path, ignore_errors=True)
            tempfile.tempdir = os.environ["TMPDIR"] = path
            return


if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
    remove_those_left()
    if shutil.disk_usage(MEMORY).free >= 2 << 30:
        make()
