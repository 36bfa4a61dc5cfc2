"""Runs of many seeds: worker processes, journal of a long run, shrinking and reporting a failure."""
