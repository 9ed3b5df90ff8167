"""How the package runs: compiled code, threads, memory, progress and warnings."""
