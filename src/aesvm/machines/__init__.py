"""Machines: the SVMs of a fit, from the plan to what they decide.

``plan`` says what a fit does, by what ``pilots`` tell; ``fit`` carries it out. ``processor``
computes, ``training_kernel`` the kernel matrix of the rows. ``problem`` has what is trained,
``training`` trains it (``solving``: in the precision that it needs), ``represent`` makes sets of
rows, ``rounds`` refines the SVM of a set, with rows in memory at their ``place`` (``score_bounds``
spare it kernel values). Classes are pairs (``one_vs_one``, of ``rows``), many at a time where they
are small (``small_pairs``, from ``class_bundles`` to ``small_results``). ``results`` are trained
machines, ``certifying`` what is known of them, ``fitted`` the attributes of scikit-learn,
``sharing`` what several fits share. ``prediction`` lets machines vote.
"""
