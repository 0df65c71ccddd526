"""Tests that boot the lab kernel."""
