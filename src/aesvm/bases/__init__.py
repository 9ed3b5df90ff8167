"""Few vectors that carry a machine: chosen by pursuit, trained on within their span."""
