"""What the estimators share: validation, parameters as values, all-or-nothing fits.

The only place of scikit-learn's private names.
"""
