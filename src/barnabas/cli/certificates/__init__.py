"""Certificates as commands look at them: in files, on listeners, and what is left of their time."""
