"""Who runs Postgres, and where its files lie. Nothing here knows how a server is started."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

# A directory in memory: making a database is a thousand small files, which a disk writes ten times
# as slowly as memory does. The tests kill processes and never the machine, so that what a server
# has written outlives it there as it does on a disk.
IN_MEMORY = os.path.join(os.sep, "dev", "shm")
MEMORY_MIN_BYTES = 6 << 30
"""Free there and in the machine, or a disk is used: several workers have several servers each."""

# pytest's tmp_path is 0700 and root's, so the account of Postgres cannot enter it: use a shared
# directory. Short names, because a Unix socket path is limited to 107 bytes.
SHARED_TEMP_DIRS = (
    tempfile.gettempdir(),
    os.path.join(os.sep, "tmp"),
    os.path.join(os.sep, "var", "tmp"),
)
# For one tool (initdb, pg_basebackup): they take a second, so a minute means that it hangs.
TOOL_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Account:
    """The user that Postgres runs as: ourselves, or as root an existing unprivileged one.

    initdb refuses to run as root, and it needs a passwd entry for its uid, so a made-up number
    does not do.
    """

    uid: int
    gid: int
    switch: bool

    @classmethod
    def choose(cls) -> Account:
        """Return our own account, or for root `$SERVICES_USER`, `postgres` or `nobody`."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid(), switch=False)
        for name in (os.environ.get("SERVICES_USER"), "postgres", "nobody"):
            with contextlib.suppress(KeyError):
                if name:
                    entry = pwd.getpwnam(name)
                    return cls(entry.pw_uid, entry.pw_gid, switch=True)
        raise RuntimeError("we are root, and there is no unprivileged user to run Postgres as")

    def ourselves(self) -> Account:
        """Return the account that we run as."""
        return Account(os.geteuid(), os.getegid(), switch=False)

    def spawn(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start a server as this account, in a session of its own."""
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=cwd,
            env=env,
            user=self.uid if self.switch else None,
            group=self.gid if self.switch else None,
            extra_groups=() if self.switch else None,
            start_new_session=True,  # Ctrl-C in the terminal must not reach the server
        )

    def run(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a tool as this account and keep what it says."""
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT_S,
            cwd=cwd,
            env=env,
            user=self.uid if self.switch else None,
            group=self.gid if self.switch else None,
            extra_groups=() if self.switch else None,
            check=False,
        )

    def can_run(self, argv: Sequence[str]) -> bool:
        """Say whether the account can run this.

        Postgres says `invalid binary`, with exit code 0, when it cannot enter its own directory:
        so a word on stderr counts as no.
        """
        try:
            done = self.run(argv, cwd=Path(os.sep))
        except OSError:
            return False
        return done.returncode == 0 and not done.stderr

    def make_dir(self) -> Path:
        """Make a temporary directory that belongs to the account and that it can enter.

        In memory if there is enough of it, unless TMPDIR says where.
        """
        first = [IN_MEMORY] if "TMPDIR" not in os.environ and _much_memory() else []
        for parent in dict.fromkeys([*first, *SHARED_TEMP_DIRS]):
            with contextlib.suppress(OSError):
                base = Path(tempfile.mkdtemp(prefix="svc-", dir=parent)).resolve()
                os.chown(base, self.uid, self.gid)
                if self.can_run(["/bin/sh", "-c", 'test -w "$0"', str(base)]):
                    return base
                base.rmdir()
        raise RuntimeError("no temp directory that the Postgres user can enter; set TMPDIR")


def _much_memory() -> bool:
    """Say whether servers may have their files in memory, and be executed there."""
    try:
        found = os.statvfs(IN_MEMORY)
        lines = Path(os.sep, "proc", "meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    available = next((int(line.split()[1]) << 10 for line in lines if "MemAvailable" in line), 0)
    # Programs are copied there for an account that cannot read them where they are.
    executable = not found.f_flag & os.ST_NOEXEC
    return executable and min(found.f_bavail * found.f_frsize, available) >= MEMORY_MIN_BYTES
