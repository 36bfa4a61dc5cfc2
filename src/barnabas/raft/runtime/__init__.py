"""Carries out what the machine decides: effects, committed entries, proposals, snapshots, timers."""
