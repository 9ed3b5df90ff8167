"""Machines: the SVMs of a fit, from the plan to what they decide.

``plan`` decides what a fit does, from counts and ``pilots``; ``fit`` carries it out. ``processor``
computes, and ``training_kernel`` is the kernel matrix of the rows. ``problem`` has what is trained.
``trainer`` trains it, in the ``precision`` that it needs. ``represent`` makes sets of rows, and
``rounds`` refines the SVM of a set: with rows in memory at their ``place``, where ``score_bounds``
spare it kernel values. Classes are pairs (``one_vs_one``, of ``rows``), many at a time where they
are small (``small_pairs``, from ``class_bundles`` to ``small_results``). ``results`` are trained
machines, ``certifying`` what is known of them, ``fitted`` the attributes of scikit-learn,
``sharing`` what several fits share. ``prediction`` lets machines vote.
"""
