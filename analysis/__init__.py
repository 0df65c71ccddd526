"""Files in, explanations out: reads run directories and captures, and never needs root or the lab."""

from analysis.pcap import read_pcap
from analysis.run import Run
from analysis.summary import summarize

__all__ = ["Run", "read_pcap", "summarize"]
