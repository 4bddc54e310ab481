"""One module per command; each has a `run` that returns the exit code."""
