"""Collectives as programs of their ranks: what each sends, receives and adds, step by step (program.py), by which
algorithm, and what carries it out on a fabric (executor.py) or in memory (rehearsal.py)."""
