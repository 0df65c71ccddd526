"""Files that are written whole, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Callable


def put_whole(path: Path, write: Callable[[Path], object]) -> Path:
    """Have `write` make a file beside `path` and put it in its place: no reader finds half of it. What a link there
    points to is left alone. Returns the path."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        write(part)
        return part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: str) -> Path:
    """Put a file of this text in place. Returns the path."""
    return put_whole(path, lambda part: part.write_text(content, encoding="utf-8"))
