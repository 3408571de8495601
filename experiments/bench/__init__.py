"""Measurements of speed: each a command that prints ratios from one run."""
