"""Whole nodes in simulation: seeds, regressions, determinism."""
