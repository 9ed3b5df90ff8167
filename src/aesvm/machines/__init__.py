"""Machines: the SVMs of a fit, from the plan to what they decide.

``plan`` decides what a fit does, from counts and ``pilots``; ``fit`` carries it out. ``processor``
computes, and ``training_kernel`` is the kernel matrix of the rows. ``fit_memory`` refuses fits that
need too much memory. ``problem`` has what is trained. ``trainer`` trains it. ``represent`` makes
sets of rows, and ``rounds`` refines the SVM of a set: with rows in memory at their ``place``.
Classes are pairs (``one_vs_one``), many at a time where they are small (``small_pairs``, in
``class_bundles``). ``results`` are trained machines and what is known of them, ``sharing`` what
several fits share. ``prediction`` lets machines vote.
"""
