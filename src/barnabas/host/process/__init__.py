"""The beginning of every program of this project: standard streams, and signals before it has a
loop."""
