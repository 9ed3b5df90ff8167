"""The dual of a weighted SVM: ``smo`` solves it, on a ``state`` of variables and scores.

``pair_updates`` solves a working set, ``row_cache`` keeps rows of the kernel matrix. ``small``
solves many small duals of two classes.
"""
