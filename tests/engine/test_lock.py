"""One engine for a cluster: a lock on a local disk, in a folder of our own."""

from pathlib import Path

import pytest

from gputop.engine.lock import Lock, file_system_type, private_folder
from gputop.model.errors import EngineError

MOUNTS = "/dev/vda / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\ntmpfs /home/op/local tmpfs rw 0 0\n"


def test_a_second_engine_is_refused_and_told_who_holds_the_lock(tmp_path: Path) -> None:
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    first.take()
    with pytest.raises(EngineError, match="already runs"):
        second.take()
    first.release()
    second.take()
    second.release()


def test_a_lock_is_never_followed_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EngineError, match="cannot be opened"):
        Lock(tmp_path / "lock").take()


def test_our_folder_is_for_us_alone(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    assert private_folder(tmp_path / "open").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("path", "kind"), [("/var/lib", "ext4"), ("/home/op", "nfs4"), ("/home/op/local/x", "tmpfs"), ("/homes", "ext4")]
)
def test_the_file_system_is_that_of_the_longest_mount_point(path: str, kind: str) -> None:
    assert file_system_type(Path(path), MOUNTS) == kind
