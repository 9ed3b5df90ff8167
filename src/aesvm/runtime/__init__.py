"""How the package runs: compiled code, threads, progress and warnings."""
