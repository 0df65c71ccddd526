"""Published curves as data, ours over the same axes, and a score for each: `run_experiment papers` (analysis/papers/
sets.py has all of them; this package loads none)."""
