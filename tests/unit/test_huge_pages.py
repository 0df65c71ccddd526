"""Where the guest's memory lies: in huge pages where they can be had, as an ordinary user too, else as it did."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import boot, huge_pages

HUGE_BYTES, TRIES = 2 << 20, 8
MODULE = Path(huge_pages.__file__)


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    huge_pages.folder.cache_clear()
    yield
    huge_pages.folder.cache_clear()


def taken_bytes(folder: Path) -> int:
    """What one byte takes of this machine's memory."""
    with (folder / "memory").open("w+b") as file:
        (folder / "memory").unlink()
        file.truncate(2 * HUGE_BYTES)
        with mmap.mmap(file.fileno(), 2 * HUGE_BYTES) as mapped:
            mapped[0] = 1
            return os.fstat(file.fileno()).st_blocks * 512


def needed_folder() -> Path:
    found = huge_pages.folder()
    if found is None:
        pytest.skip("neither root nor a user namespace may mount a tmpfs with huge pages here")
    return found


def test_memory_comes_in_huge_pages() -> None:
    folder = needed_folder()
    assert HUGE_BYTES in {taken_bytes(folder) for _ in range(TRIES)}  # some may be small where memory is in pieces


def test_guest_memory_lies_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FABRICLAB_MEMORY", raising=False)
    assert boot.memory_folder(1 << 20) == needed_folder()


def test_a_folder_that_is_asked_for_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FABRICLAB_MEMORY", str(tmp_path))
    assert boot.memory_folder(1 << 20) == tmp_path


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EINVAL])
def test_without_them_memory_is_where_it_was(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse() -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(huge_pages, "_mount", refuse)
    monkeypatch.delenv("FABRICLAB_MEMORY", raising=False)
    assert huge_pages.folder() is None
    assert boot.memory_folder(1 << 20) == Path("/dev/shm")


def test_who_may_not_mount_has_a_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    needed_folder()
    huge_pages.folder.cache_clear()

    def refuse() -> int:
        raise PermissionError

    monkeypatch.setattr(huge_pages, "_mount", refuse)
    assert (found := huge_pages.folder()) is not None
    assert taken_bytes(found) >= 4096


def test_a_helper_that_may_not_either_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "refused.py").write_text("raise SystemExit(1)")
    monkeypatch.setattr(huge_pages, "__file__", str(tmp_path / "refused.py"))
    assert huge_pages._helped() is None


def test_nothing_of_it_is_mounted_here() -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    needed_folder()
    assert Path("/proc/self/mountinfo").read_text() == mounts


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_has_them_too() -> None:
    needed_folder()
    told = f"import os, sys; sys.path.insert(0, {str(MODULE.parents[1])!r}); from lab.huge_pages import folder; "
    told += "print(folder() is not None and os.access(folder(), os.W_OK))"
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-B", "-c", told]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == str(_may_make_namespaces())


def _may_make_namespaces() -> bool:
    """An ordinary user, on this machine."""
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "--user", "--mount", "true"]
    return subprocess.run(words, capture_output=True, cwd="/").returncode == 0
