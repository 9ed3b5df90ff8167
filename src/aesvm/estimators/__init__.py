"""What the estimators share: validation, parameters as values, all-or-nothing fits."""
