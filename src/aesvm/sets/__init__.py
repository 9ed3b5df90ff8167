"""Representative sets: the paper's DeriveRS.

Equal rows are merged (``distinct``), each group is cut into subsets of similar rows
(``partition``), a subset is reduced to approximate extreme points of its convex hull (``hull``,
which begins with the smallest enclosing ``ball``), and the subsets are put together (``derive``).
"""
