"""The control plane: what marks, pauses, routes and measures."""
