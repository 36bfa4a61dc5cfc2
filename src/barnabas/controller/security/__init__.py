"""Decisions about who may do what: the records of access control."""
