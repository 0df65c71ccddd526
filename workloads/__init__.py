"""What the hosts of a fabric do."""
