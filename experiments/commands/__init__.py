"""What each command of the command line does; experiments/cli.py reads the words and calls them."""
