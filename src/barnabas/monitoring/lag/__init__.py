"""The lag of groups: what is asked of the leaders of partitions, and what is made of their answers."""
