"""A PostgreSQL server of our own: Debian's binaries, a temporary folder, a socket and no port."""

import getpass
import glob
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path


def server_binaries():
    """The folder of the newest server on this machine; None where there is none."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: float(Path(path).parts[-3]))
    return Path(found[-1]).parent if found else None


@contextmanager
def postgres_server(binaries):
    """A running server; gives its address. A server refuses to run as root, so it is then the user postgres's."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    user, as_user = getpass.getuser(), []
    if os.geteuid() == 0:
        user, as_user = "postgres", ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        shutil.chown(folder, user, user)
    table, quiet = folder / "data", {"check": True, "capture_output": True, "cwd": folder}
    control = [*as_user, str(binaries / "pg_ctl"), "-D", str(table), "-w"]
    settings = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off -c shared_buffers=16MB"
    try:
        subprocess.run([*as_user, str(binaries / "initdb"), "-D", str(table), "-U", user, "-A", "trust", "-N"], **quiet)
        # Its output goes to a file: it would keep a pipe of ours open.
        subprocess.run([*control, "-l", str(folder / "log"), "-o", settings, "start"], **quiet)
        try:
            yield f"postgresql://{user}@/postgres?host={folder}"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
