"""Figures by matplotlib: one style, one colour for each scheme."""
