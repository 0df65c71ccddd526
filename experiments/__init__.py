"""Experiments: what is asked, run and concluded; and the command line in front of them."""
