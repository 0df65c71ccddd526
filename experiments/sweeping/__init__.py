"""Many runs of one experiment: planned, spread over cores or machines, kept, and told."""
