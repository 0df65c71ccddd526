"""Where built things live outside the repository: the lab kernel and the Python environment.

Any Python from 3.6 on can run this file by its path, because `run_experiment` asks it before the project's
own Python is found. As a program it prints the environment's interpreter (exit status 1 when there is none),
or, with `--own`, the folder in which this user builds it.
"""

import hashlib
import os
import pwd
import sys
from pathlib import Path

SYSTEM_PYTHON = "/usr/bin/python3"
_SYSTEM_CACHE = Path("/var/cache/fabriclab")
_LOCKS = Path(__file__).resolve().parent.parent / "requirements"


def own_cache() -> Path:
    """The folder this user writes to: $FABRICLAB_CACHE, else fabriclab in $XDG_CACHE_HOME or ~/.cache."""
    given = os.environ.get("FABRICLAB_CACHE")
    if given:
        return Path(given).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fabriclab"


def cache_folders() -> "list[Path]":
    """Every folder to look in, own first; under sudo also the invoking user's, and at last the system's."""
    folders = [own_cache()]
    if not os.environ.get("FABRICLAB_CACHE"):
        folders += _invoking_users_cache()
    return [*folders, _SYSTEM_CACHE]


def _invoking_users_cache() -> "list[Path]":
    try:
        home = pwd.getpwnam(os.environ.get("SUDO_USER", "")).pw_dir
    except KeyError:  # no sudo, or a user of another machine
        return []
    return [Path(home) / ".cache" / "fabriclab"]


def environment_name() -> str:
    """`HASH-py3.X`: the environment made from exactly these lock files by exactly this system Python."""
    digest = hashlib.sha256()
    for lock in sorted(_LOCKS.glob("*.txt")):
        digest.update(lock.read_bytes())
    # Debian and Ubuntu link python3 to python3.X: the name tells the version without starting an interpreter.
    version = str(Path(SYSTEM_PYTHON).resolve()).rpartition("python")[2]
    return "{}-py{}".format(digest.hexdigest()[:12], version)


def own_environment() -> Path:
    """The folder in which this user's environment is built."""
    return own_cache() / "environments" / environment_name()


def environment_python() -> "Path | None":
    """The environment's interpreter from the first cache folder that has it, None when no folder has."""
    for folder in cache_folders():
        python = folder / "environments" / environment_name() / "bin" / "python"
        if os.access(str(python), os.X_OK):
            return python
    return None


def _print_answer(arguments: "list[str]") -> int:
    answer = own_environment() if arguments == ["--own"] else environment_python()
    if answer:
        print(answer)
    return 0 if answer else 1


if __name__ == "__main__":
    sys.exit(_print_answer(sys.argv[1:]))
