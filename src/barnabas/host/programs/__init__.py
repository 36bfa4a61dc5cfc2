"""Ports of programs that are no node: a loop, a network, secrets, and no files."""
