"""The reference of the documentation, written from what the code itself goes by: every key of a spec from its
definition, every experiment from the catalog, every command from the command line's parser.

`python -m experiments.reference` writes docs/reference/{keys,experiments,commands}.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import Field, fields, is_dataclass
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

from experiments.catalog import Case, Experiment, catalog, plan
from experiments.cli import command_line
from experiments.keys.key import Needs
from experiments.spec import Spec, as_typed

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
_BAR = "&#124;"
_WIDTH, _INDENT, _TIED = 110, " " * 8, "\xa0"
_ORIGIN = "<!-- Written by `python -m experiments.reference`: change the code, not this page. -->"


def main() -> None:
    """Write the pages of the reference."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """File name -> text of every page of the reference."""
    written = {"keys.md": _keys(), "experiments.md": _experiments(), "commands.md": _commands()}
    return {name: "\n".join((_ORIGIN, "", *lines)).rstrip("\n") + "\n" for name, lines in written.items()}


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown, and an empty line."""
    yield _row(columns)
    yield _row(["---"] * len(columns))
    yield from map(_row, rows)
    yield ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', _BAR) for cell in cells)} |"


def _code(text: str) -> str:
    """Code in Markdown, also in a table, where a bar would end the cell."""
    return f"<code>{escape(text)}</code>" if "|" in text else f"`{text}`"


# --- keys of a spec


def _keys() -> Iterator[str]:
    """The page of keys, a table for each group of them."""
    yield "# Keys of a spec"
    yield ""
    yield "Each is a `--set KEY=VALUE` of the command line and a line `KEY: VALUE` of a YAML file. *auto* is derived"
    yield "from the other keys; a key that is given where it does not apply is refused. The same list in the terminal:"
    yield "`./run_experiment list --keys`."
    yield ""
    told: set[str] = set()
    for group in (each for each in reversed(Spec.__mro__) if is_dataclass(each)):
        yield f"## {'What is kept, and the seed' if group is Spec else str(group.__doc__).rstrip('.')}"
        yield ""
        own = [item for item in fields(group) if item.name not in told]
        yield from _table(("key", "default", "meaning", "allowed", "with"), [_key(item) for item in own])
        told |= {item.name for item in own}


def _key(item: Field[Any]) -> tuple[str, ...]:
    """The row of a key; its name is an anchor of the page."""
    told = item.metadata
    name, special = told["name"], told["values"]
    return (
        f'<a id="{name}"></a>{_code(name)}',
        _code(as_typed(told["kind"].format(item.default))),
        told["help"] + "".join(f"; {_code(value)} needs {_needed(needs)}" for value, needs in special.items()),
        told["kind"].allowed,
        _needed(told["needs"]),
    )


def _needed(needs: Needs) -> str:
    """The values of other keys that are needed, each key's in words."""
    return ", ".join(f"{_code(other)} {' or '.join(values)}" for other, values in needs.items())


# --- experiments


def _experiments() -> Iterator[str]:
    """The page of experiments: a table of all, and a chapter for each."""
    known = catalog()
    yield "# Experiments"
    yield ""
    yield "`./run_experiment NAME` runs the main run and those that it is compared with, `--only` the main run alone."
    yield "A comparison is left out where `--set` has decided the key that it changes. Slides are those of the lecture"
    yield '"Communication Challenge in ML" (ICNS lab, Kyung Hee University).'
    yield ""
    yield from _table(
        ("experiment", "question"), [(f"[{_code(name)}](#{name})", each.question) for name, each in known.items()]
    )
    for experiment in known.values():
        yield from _experiment(experiment)


def _experiment(experiment: Experiment) -> Iterator[str]:
    yield f"## {experiment.name}"
    yield ""
    yield experiment.question
    yield ""
    yield f"- Claim: {experiment.claim}"
    yield f"- Expected: {experiment.expects}"
    linked = [f"[{_setting(name, value)}](keys.md#{name})" for name, value in experiment.defaults.items()]
    yield f"- Main run: {', '.join(linked) or 'the defaults of every key'}"
    yield ""
    yield from _cases(experiment.cases(plan(experiment, {}).main))


def _cases(cases: Sequence[Case]) -> Iterator[str]:
    if cases:
        yield from _table(("compared with", "what it changes"), [(case.label, _changes(case)) for case in cases])


def _changes(case: Case) -> str:
    clock = () if case.clock is None else (_code(f"--clock {case.clock}"),)
    return ", ".join((*(_setting(name, value) for name, value in case.changes.items()), *clock))


def _setting(name: str, value: Any) -> str:
    """A key with its value as the command line takes it."""
    return _code(f"{name}={as_typed(value)}")


# --- commands


def _commands() -> Iterator[str]:
    """The page of commands: a chapter for each."""
    parser = command_line()
    yield "# Commands"
    yield ""
    yield f"`./run_experiment COMMAND ...`; {str(parser.epilog).replace('run_experiment', './run_experiment')}"
    yield "Tables and `--json` documents go to standard output, messages to standard error."
    yield ""
    yield "Exit status: 0 done; 1 the run failed; 2 a bad request, in one line that names what was given and what is"
    yield "allowed; 130 interrupted."
    yield ""
    for name, told, command in _inner(parser):
        yield from _command(name, told, command)


def _inner(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Name, help and parser of every command within a parser; of one that has commands itself, theirs."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help for each in action._choices_actions}
            for name, command in action.choices.items():
                deeper = [(f"{name} {inner}", told, each) for inner, told, each in _inner(command)]
                yield from deeper or [(name, helps[name] or "", command)]


def _command(name: str, told: str, command: argparse.ArgumentParser) -> Iterator[str]:
    actions = [action for action in command._actions if action.dest != "help"]
    yield f"## {name}"
    yield ""
    yield f"{told[:1].upper()}{told[1:]}."
    yield ""
    usage = " ".join(word.replace(" ", _TIED) for word in (name, *map(_usage, actions)))
    for line in wrap(f"./run_experiment {usage}", _WIDTH, subsequent_indent=_INDENT, break_on_hyphens=False):
        yield f"    {line.replace(_TIED, ' ')}"
    yield ""
    if actions:
        yield from _table(("argument", "meaning"), [(_code(_argument(each)), _meaning(each)) for each in actions])


def _usage(action: argparse.Action) -> str:
    """An argument as a line of usage shows it."""
    text = _argument(action)
    if not action.option_strings:
        return {"+": f"{text} ...", "*": f"[{text} ...]"}.get(str(action.nargs), text)
    return text if action.required else f"[{text}]"


def _argument(action: argparse.Action) -> str:
    """An argument by its longest name, with what stands behind it."""
    behind = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    if not action.option_strings:
        return str(behind)
    option = max(action.option_strings, key=len)
    return option if action.nargs == 0 else f"{option} {behind}"


def _meaning(action: argparse.Action) -> str:
    """The help of an argument; of the one that has none it is JSON instead of a table."""
    return action.help or {"json": "print JSON instead of a table"}.get(action.dest, "")


if __name__ == "__main__":
    main()
