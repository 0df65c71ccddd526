"""Captures to explanations: who stalled, why, for how long, and what the switch did; no run directory is needed."""
