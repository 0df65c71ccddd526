"""Files in, explanations out: reads run directories and captures, and never needs root or the lab."""

try:
    from analysis.api import Run
    from analysis.capture.reader import read_capture
    from analysis.explain.explain import explain
    from analysis.summary import summarize
except ModuleNotFoundError as missing:
    raise ImportError(f"{missing.name} is missing; use the project's Python: $(python3 lab/cache.py)") from None

__all__ = ["Run", "explain", "read_capture", "summarize"]
