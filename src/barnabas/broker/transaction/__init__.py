"""Transactions on a broker: coordinators, their markers, and the verification of writes."""
