"""Transactions on a broker: its coordinators, their markers, and the check of a write's partitions."""
