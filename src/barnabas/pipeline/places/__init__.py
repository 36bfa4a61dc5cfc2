"""Places that driver and executors share: what a path or URI means, and how Python opens it."""
