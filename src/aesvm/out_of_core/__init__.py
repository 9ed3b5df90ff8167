"""Rows that are never in one place: streams, sources that are read again, and parts of a cluster.

``weighted_rows`` are what travels, ``merge_tree`` keeps them within a tolerance and a budget,
``tally`` counts what was seen, ``source`` reads chunks. A ``stream`` is all of that together. In
rounds (``machines.rounds``) rows are asked again: ``part`` says what is asked of some rows and how
answers are merged, ``reread`` asks a source, ``gathered`` makes training sets of the answers, and
``elsewhere`` is the place that the loop of rounds knows. ``classifier`` trains on all of these.
"""
