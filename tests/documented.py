"""What the documentation shows: its pages, their blocks of code, and the commands in them.

A block is fenced, or indented by four spaces. One that begins with a command, as it is typed or behind a prompt `$ `,
is made of commands alone, but for what is answered to a prompt; any other block has none. In the running text whole
commands of ours count too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GENERATED = "docs/reference/"  # usage, written from the parser itself
PROMPT = "$ "
SHELL = ("", "sh")  # languages of blocks that may be commands

_OURS = r"\./run_experiment|run_experiment|\./provision\.sh|\$\(python3 lab/cache\.py\)"
_PROGRAMS = rf"{_OURS}|sudo|make|vagrant|git|cd|python3?|(lock|python)=.*|\$(lock|python)"
_COMMAND = re.compile(rf"(\w+=\S+ )*({_PROGRAMS})( |$)")
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?<=\n\n)(?:    .*\n|\n(?=    ))+")
_SAVED = re.compile(r"[Ss]ave this as `([\w.-]+)`")
_COMMENT = re.compile(r"\s+# .*")
_INLINE = re.compile(r"`((?:sudo )?\./run_experiment [^`]+|run_experiment [^\s`]+ [^`]+|make [a-z]+)`")
_RUN_EXPERIMENT = ("./run_experiment", "run_experiment")


@dataclass(frozen=True)
class Block:
    """A block of code: its page (a path from the root), its first line's number, its language where it names one."""

    page: str
    line: int
    language: str
    text: str

    @property
    def has_commands(self) -> bool:
        """Whether it begins with a command."""
        return self.language in SHELL and is_command(self.text.partition("\n")[0])


@dataclass(frozen=True)
class Command:
    """A command as a page shows it, without a comment, and what is answered to it where it stands behind a prompt."""

    page: str
    line: int
    text: str
    answer: str = ""
    is_in_text: bool = False

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"

    @property
    def words(self) -> list[str]:
        """Its words."""
        return shlex.split(self.text)

    @property
    def ours(self) -> list[str]:
        """The words behind `run_experiment`; none when it is another program's command."""
        places = [place for place, word in enumerate(self.words) if word in _RUN_EXPERIMENT]
        return self.words[places[0] + 1 :] if places else []

    @property
    def as_root(self) -> bool:
        """Whether it needs root."""
        return self.words[0] == "sudo"

    @property
    def is_synopsis(self) -> bool:
        """Whether it shows what may be written, instead of something to type."""
        return bool(re.search(r"[\[|]|\.\.\.", self.text))


def pages() -> dict[str, str]:
    """Path from the root -> text of every page of the documentation but the generated reference."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in found}
    return {name: text for name, text in texts.items() if not name.startswith(GENERATED)}


def is_command(line: str) -> bool:
    """Whether a line of a block is a command."""
    return bool(_COMMAND.match(line[len(PROMPT) :] if line.startswith(PROMPT) else line))


def blocks(page: str, text: str) -> list[Block]:
    """The blocks of code of a page, the fenced ones first."""
    fenced = [Block(page, _line(text, each.start(2)), each[1], each[2]) for each in _FENCED.finditer(text)]
    rest = _without(_FENCED, text)
    indented = [
        Block(page, _line(rest, each.start()), "", re.sub("^    ", "", each[0], flags=re.MULTILINE))
        for each in _INDENTED.finditer(rest)
    ]
    return fenced + indented


def saved(page: str, text: str) -> dict[str, str]:
    """Name -> text of the files that a page has its reader save: the block behind each."""
    ordered = sorted(blocks(page, text), key=lambda block: block.line)
    places = {found[1]: _line(text, found.start()) for found in _SAVED.finditer(text)}
    return {name: next(each.text for each in ordered if each.line > place) for name, place in places.items()}


def commands(page: str, text: str) -> Iterator[Command]:
    """Every command of a page; raises AssertionError for a block of commands with something else in it."""
    for block in blocks(page, text):
        lines = block.text.splitlines()
        if not block.has_commands:
            is_other = block.language not in SHELL or not any(map(is_command, lines))
            assert is_other, f"{page}:{block.line}: a command among others"
        elif lines[0].startswith(PROMPT):
            yield from _prompted(block, lines)
        else:
            for number, line in enumerate(lines, block.line):
                assert is_command(line), f"{page}:{number}: no command that the tests know: {line}"
                for part in _COMMENT.sub("", line).split(" && "):
                    yield Command(page, number, part)
    prose = _without(_INDENTED, _without(_FENCED, text))
    for found in _INLINE.finditer(prose):
        yield Command(page, _line(prose, found.start()), " ".join(found[1].split()), is_in_text=True)


def _prompted(block: Block, lines: list[str]) -> Iterator[Command]:
    """The commands behind prompts, each with the lines up to the next prompt."""
    places = [number for number, line in enumerate(lines) if line.startswith(PROMPT)]
    for place, end in zip(places, [*places[1:], len(lines)]):
        text = _COMMENT.sub("", lines[place][len(PROMPT) :])
        yield Command(block.page, block.line + place, text, "\n".join(lines[place + 1 : end]))


def _without(blocks: re.Pattern[str], text: str) -> str:
    """A page with empty lines in the place of its blocks."""
    return blocks.sub(lambda found: "\n" * found[0].count("\n"), text)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
