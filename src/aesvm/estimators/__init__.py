"""The code common to all estimators: checks of input, fits, streams, predictions, conversions."""
