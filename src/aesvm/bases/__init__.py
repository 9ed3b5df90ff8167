"""SVMs with w in the span of few vectors, which a pursuit chooses."""
