"""Decisions about access control: ACLs, quotas, SCRAM users, delegation tokens."""
