"""Runs a notebook of analysis/notebooks as a reader would, and looks at what it drew."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib.image
import nbformat
import pytest
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parents[1] / "analysis" / "notebooks"
FIGURES = {
    "01-incast-step-by-step": 6,
    "02-reading-a-pcap-by-hand-with-scapy": 2,
    "03-dctcp-against-dcqcn": 5,
    "04-your-own-experiment": 2,
}
NOTEBOOKS = tuple(FIGURES)
_LEAST_COLOURS = 3  # of a figure with something in it: paper, ink, and a line


def executed(name: str, monkeypatch: pytest.MonkeyPatch, timeout_s: int = 300) -> Any:
    """The notebook with its outputs, run by this Python; what Jupyter keeps is gone afterwards. Raises
    CellExecutionError for a cell that fails."""
    document = nbformat.read(HERE / f"{name}.ipynb", as_version=4)
    nbformat.validate(document)
    with TemporaryDirectory() as folder:
        for variable in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
            monkeypatch.setenv(variable, str(Path(folder) / variable.lower()))
        NotebookClient(document, timeout=timeout_s, resources={"metadata": {"path": str(HERE)}}).execute()
    return document


def figures(document: Any) -> int:
    """How many figures the notebook drew that are not blank."""
    images = [
        matplotlib.image.imread(io.BytesIO(base64.b64decode(output["data"]["image/png"])))
        for cell in document["cells"]
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    return sum(
        len({tuple(pixel) for pixel in image[::3, ::3].reshape(-1, image.shape[2])}) >= _LEAST_COLOURS
        for image in images
    )
