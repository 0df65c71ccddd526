"""The keys of a spec by what they are about; experiments/spec.py puts them together."""
