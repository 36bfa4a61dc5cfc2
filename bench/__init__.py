"""Fixed workloads, run side by side with a peer in one run; results are ratios."""
