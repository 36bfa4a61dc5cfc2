"""Commands measure these by asking brokers: sizes and rates of partitions, and how far groups are behind."""
