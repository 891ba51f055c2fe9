"""The lab's people: a job owner, an operator who may read the journal, and one who may not."""

import grp
import pwd
import subprocess

from tests.lab.needs import program

OWNER = "gplab-ann"
OPERATOR = "gplab-op"
OUTSIDER = "gplab-no"
PEOPLE = (OWNER, OPERATOR, OUTSIDER)
JOURNAL_GROUP = "systemd-journal"


def ensure_accounts() -> None:
    """Makes the accounts that are not there yet; they stay, and can log in only to a lab."""
    try:
        grp.getgrnam(JOURNAL_GROUP)
    except KeyError:
        subprocess.run([program("groupadd"), "-r", JOURNAL_GROUP], check=True)
    for name in PEOPLE:
        try:
            pwd.getpwnam(name)
        except KeyError:
            groups = ["-G", JOURNAL_GROUP] if name == OPERATOR else []
            argv = [program("useradd"), "-M", "-d", "/", "-s", "/bin/sh", "-p", "*", *groups, name]
            subprocess.run(argv, check=True, capture_output=True)


def ids(name: str) -> tuple[int, int]:
    """(uid, gid)."""
    entry = pwd.getpwnam(name)
    return entry.pw_uid, entry.pw_gid
