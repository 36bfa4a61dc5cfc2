"""Coordinators of groups and transactions on a broker."""
