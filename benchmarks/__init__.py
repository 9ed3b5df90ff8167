"""Programs that measure: one file per question. ``python -m benchmarks --help``."""
