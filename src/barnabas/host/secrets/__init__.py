"""Secrets of the machine: files, folders and variables that configurations name, and certificates on disk."""
