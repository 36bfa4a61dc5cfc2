"""How a program of this project begins: its standard streams, and signals before it has a loop."""
