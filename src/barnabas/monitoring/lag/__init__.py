"""Finds the lag of groups by questions to the leaders of partitions."""
