"""Launch: a program of the user's, one rank a host."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.keys.key import LAUNCH, doing, key
from experiments.kinds import AUTO, OFF, SPAN, TEXT, choice, off_or, optional

MPIRUN = "mpirun"


@dataclass(frozen=True)
class LaunchKeys:
    """Launch: a program of the user's, one rank a host."""

    command: str | None = key(
        "command", optional(TEXT), AUTO, "program and words, as a shell reads them", doing(LAUNCH)
    )
    directory: str | None = key("directory", optional(TEXT), AUTO, "where it runs; auto: here", doing(LAUNCH))
    starter: str | None = key(
        "starter",
        optional(choice("ranks", MPIRUN)),
        AUTO,
        "who starts it: we, on every host, or mpirun, which we start on h1 with the list of hosts",
        doing(LAUNCH),
        auto="ranks",
    )
    timeout_ns: int = key(
        "timeout", off_or(SPAN), OFF, "virtual time after which ranks that still run are ended", doing(LAUNCH)
    )
