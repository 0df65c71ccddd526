"""Flows of TCP and RoCE from packets: what was sent again and why, and why a flow stood still."""
