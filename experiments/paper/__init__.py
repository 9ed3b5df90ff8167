"""The experiments of the AESVM paper, run again, and the report on them."""
