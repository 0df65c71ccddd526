"""Code of the user's own in place of ours: `FILE.py:NAME`, a function or a class in one file.

The file is read once, at the edge, and its text goes wherever the plug goes: into the run directory, into the lab, to
other machines. What runs is that text, not the file. It may import what is installed, and our packages; a neighbour of
its own it does not find, for its folder is on no search path: what could not be carried along does not work from the
start. The only place that executes code which is not ours.
"""

from __future__ import annotations

import linecache
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from topologies.units import BadRequest, named_error

FORM = "FILE.py:NAME"
KEYS = ("topology", "workload", "policy")  # of a spec, whose value may be a plug
_PLUG = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_][A-Za-z0-9_]*)", re.DOTALL)
_LARGEST_FILE_BYTES = 1 << 20
PATIENCE_S = 120.0  # of computing: a rehearsal of as many transfers as are allowed takes a fraction


@dataclass(frozen=True)
class Plug:
    """The object `name` of a file with this text; `file` tells where the text was read."""

    file: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"

    def as_json(self) -> dict[str, str]:
        """Plain values, for `Plug(**values)`."""
        return asdict(self)

    @cached_property
    def sha256(self) -> str:
        """Of the text in UTF-8."""
        return sha256(self.text.encode()).hexdigest()


def is_plug(value: Any) -> bool:
    """Whether a value of a spec is the form of a plug."""
    return isinstance(value, str) and _PLUG.fullmatch(value) is not None


def read(value: str, key: str) -> Plug:
    """The plug that `value` names, a relative file from the current folder; raises BadRequest naming `key` when there
    is no such file, or when it is no text."""
    match = _PLUG.fullmatch(value)
    if match is None:
        raise BadRequest(f"{key}: {value!r} is given; allowed: {FORM}")
    path = Path(match["file"]).absolute()
    try:
        if not path.is_file():
            raise BadRequest(f"{key}: {value!r} is given, and {path} is no file; allowed: {FORM}")
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise BadRequest(f"{key}: {path} has {path.stat().st_size} bytes; allowed: up to {_LARGEST_FILE_BYTES}")
        return Plug(str(path), match["name"], path.read_bytes().decode())
    except (OSError, UnicodeError, ValueError) as error:
        if isinstance(error, BadRequest):
            raise
        raise BadRequest(f"{key}: {path} cannot be read ({error}); allowed: a file of Python") from None


def located(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A spec's values as a file in `folder` has them: its relative plugs lie beside it."""
    return {
        key: str(folder.absolute() / value) if key in KEYS and is_plug(value) else value
        for key, value in values.items()
    }


def load(plug: Plug, key: str) -> Any:
    """The object that a plug names; raises BadRequest naming `key` when its file is no Python, raises, or has no such
    name."""
    with told(plug, key):
        module = _module(plug.file, plug.text)
        if hasattr(module, plug.name):
            return getattr(module, plug.name)
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    close = get_close_matches(plug.name, own, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise BadRequest(f"{key}: {plug.file} has no {plug.name}{hint}; allowed: {', '.join(own) or 'a name of it'}")


@lru_cache(maxsize=64)
def _module(file: str, text: str) -> ModuleType:
    """A text as a module, run once; tracebacks show its lines."""
    module = ModuleType(f"own_{sha256(f'{file}:{text}'.encode()).hexdigest()[:16]}")
    module.__file__ = file
    code = compile(text.encode(), file, "exec", dont_inherit=True)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    sys.modules[module.__name__] = module  # dataclasses, and whatever else asks for a class's module, find it there
    exec(code, vars(module))
    return module


@contextmanager
def told(plug: Plug, key: str, patience_s: float | None = PATIENCE_S) -> Iterator[None]:
    """Whatever the plug's code raises becomes a BadRequest in one line, with the place in its file, and so does a loop
    without an end; what it prints goes to standard error, for standard output is ours, and may be JSON."""
    try:
        with redirect_stdout(sys.stderr), _ended_after(patience_s):
            yield
    except BadRequest:
        raise
    except SyntaxError as error:
        where = f"{error.filename or plug.file}:{error.lineno or 1}"
        raise BadRequest(f"{key}: {where}: {error.msg}; allowed: Python") from None
    except (Exception, SystemExit, GeneratorExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == plug.file]
        where = f"{plug.file}:{lines[-1]}" if lines else str(plug)
        raise BadRequest(f"{key}: {where} raises {named_error(error)}; allowed: code that does not") from None


@contextmanager
def _ended_after(patience_s: float | None) -> Iterator[None]:
    """TimeoutError once this process has computed for so long; without effect inside another one, and in threads, which
    hear no signals."""
    is_main = threading.current_thread() is threading.main_thread()
    if patience_s is None or not is_main or signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
        yield
        return

    def late(number: int, frame: Any) -> None:
        raise TimeoutError(f"it computes for more than {patience_s:g} s")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, patience_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def refuse(plug: Plug, key: str, given: str, allowed: str) -> BadRequest:
    """What is wrong with what a plug has made."""
    return BadRequest(f"{key}: {plug.name} of {plug.file} {given}; allowed: {allowed}")
