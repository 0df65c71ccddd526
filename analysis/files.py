"""Files that are written whole, or not at all."""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, content: str) -> Path:
    """Write `content` beside `path` and put it in its place; what a link there points to is left alone. Returns the
    path."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        part.write_text(content, encoding="utf-8")
        return part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
