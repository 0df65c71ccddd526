"""Our labels of a capture held against those of tshark, packet by packet."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.capture.reader import read_capture
from analysis.transport.labels import (
    FAST_RETRANSMISSION,
    NAMES,
    RETRANSMISSION,
    SPURIOUS_RETRANSMISSION,
    Labels,
    labels,
)
from topologies.units import BadRequest

_LIMIT_S = 600.0


@dataclass(frozen=True)
class KindAgreement:
    """Packets with one label: given by both, by us alone, by tshark alone."""

    name: str
    both: int
    ours: int
    theirs: int


@dataclass(frozen=True)
class Agreement:
    """How far two sets of labels agree: packets in all, those whose labels are the same, those that bear one at all, of
    either set, and each label by itself."""

    packets: int
    same: int
    labelled: int
    kinds: tuple[KindAgreement, ...]

    @property
    def share(self) -> float:
        """The share of packets with the same labels; 1 without any."""
        return self.same / self.packets if self.packets else 1.0

    @property
    def labelled_share(self) -> float:
        """The same share among the packets that bear a label."""
        return 1 - (self.packets - self.same) / self.labelled if self.labelled else 1.0


def compare_with_tshark(path: str | Path) -> Agreement:
    """Our labels of a capture against tshark's; raises BadRequest where tshark is missing or cannot read it."""
    return compare(labels(read_capture(path)), tshark_labels(path))


def compare(ours: Labels, theirs: Labels) -> Agreement:
    """Two sets of labels of the same packets; raises BadRequest for a different number of packets."""
    if len(ours.bits) != len(theirs.bits):
        raise BadRequest(f"labels: of {len(ours.bits)} and of {len(theirs.bits)} packets; allowed: of the same capture")
    kinds = []
    for name in NAMES:
        one, other = ours.where(name), theirs.where(name)
        counts = (int(each.sum()) for each in (one & other, one & ~other, other & ~one))
        kinds.append(KindAgreement(name, *counts))
    same = int((ours.bits == theirs.bits).sum())
    labelled = int(((ours.bits | theirs.bits) > 0).sum())
    return Agreement(len(ours.bits), same, labelled, tuple(kinds))


def tshark_labels(path: str | Path) -> Labels:
    """What tshark says of each packet. It calls a fast or spurious retransmission a retransmission as well, which is
    left out."""
    fields = [word for name in NAMES for word in ("-e", f"tcp.analysis.{name}")]
    command = ["tshark", "-n", "-r", str(path), "-o", "tcp.analyze_sequence_numbers:TRUE", "-T", "fields"]
    lines = _output([*command, "-E", "separator=,", "-E", "occurrence=f", *fields]).splitlines()
    return Labels(np.fromiter(map(_bits, lines), np.uint16, len(lines)))


def _bits(line: str) -> int:
    """The bits of a line of fields, each empty where the packet lacks the label."""
    told = {name for name, field in zip(NAMES, line.split(",")) if field}
    if told & {FAST_RETRANSMISSION, SPURIOUS_RETRANSMISSION}:
        told -= {RETRANSMISSION}
    return sum(1 << place for place, name in enumerate(NAMES) if name in told)


def _output(command: Iterable[str]) -> str:
    try:
        done = subprocess.run(list(command), capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except FileNotFoundError as error:
        raise BadRequest("tshark: is not installed; needed to compare labels with its own") from error
    except subprocess.TimeoutExpired as error:
        raise BadRequest(f"tshark: took longer than {_LIMIT_S:g} s") from error
    if done.returncode:
        raise BadRequest(f"tshark: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'failed'}")
    return done.stdout
