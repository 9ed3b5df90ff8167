from __future__ import annotations

import hypothesis

# The first example of a test may compile: no deadline. Examples are the same in every run.
hypothesis.settings.register_profile("aesvm", deadline=None, derandomize=True, max_examples=150)
hypothesis.settings.load_profile("aesvm")
