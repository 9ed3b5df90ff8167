"""Rows that are never in one place: streams, sources that are read again, and parts of a cluster.

A set of ``weighted_rows`` stands for all rows. A ``stream`` gathers it from the chunks of a
``source``: its ``merge_tree`` keeps the set within a tolerance and a budget, a tally counts the
rows. ``gathered_training`` trains the SVM of the set. Where the holder of the rows answers queries
(``answers``; a source that is read again does), it refines that SVM. ``part`` has the queries about
some rows, and merges what several parts answer.
"""
