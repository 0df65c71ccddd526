"""Pause frames: IEEE 802.3 annexes 31B (PAUSE) and 31D (priority-based flow control)."""

from __future__ import annotations

import numpy as np

from analysis.capture.frames import Frames, Headers
from analysis.capture.packets import PAUSE, PAUSE_CLASSES, PFC

_PAUSE = np.dtype([("opcode", ">u2"), ("quanta", ">u2")])
_PFC = np.dtype([("opcode", ">u2"), ("classes", ">u2"), ("quanta", ">u2", (PAUSE_CLASSES,))])


def mac_control(frames: Frames, headers: Headers) -> None:
    """Fill the columns of pause frames; PAUSE has its one time where PFC has its classes."""
    headers = frames.whole(headers, _PAUSE.itemsize)
    header = frames.read(headers, _PAUSE)
    is_pause, is_pfc = header["opcode"] == PAUSE, header["opcode"] == PFC
    _fill(frames, headers.keep(is_pause), PAUSE, 0xFF, header["quanta"][is_pause][:, None])
    pfc = frames.whole(headers.keep(is_pfc), _PFC.itemsize)
    told = frames.read(pfc, _PFC)
    _fill(frames, pfc, PFC, told["classes"] & 0xFF, told["quanta"])


def _fill(frames: Frames, headers: Headers, opcode: int, classes: np.ndarray | int, quanta: np.ndarray) -> None:
    if len(headers.rows):
        frames.put("mac_control", headers, opcode)
        frames.put("pause_classes", headers, classes)
        frames.put("pause_quanta", headers, quanta)
