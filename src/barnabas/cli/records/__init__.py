"""Records on the command line: which are read, how they are printed, and what a line becomes."""
