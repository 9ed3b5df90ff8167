"""Trained SVMs, from weighted sets to exact ones.

``formulation`` says what a formulation of the SVM must offer; ``hinge``, ``nu_hinge``,
``one_class``, ``tube`` and ``nu_tube`` are the five. ``problem`` has what is trained, ``training``
trains it, ``rounds`` is the loop that takes a representative set towards the exact SVM, and
``memory`` the place of rows in memory. ``rows`` and ``fit`` train all machines of some rows; many
classes are pairs of them (``one_vs_one``), trained many at a time where they are small
(``small_pairs``). ``results`` and ``accounts`` are what is known of trained machines, ``fitted``
puts them together as scikit-learn does, and ``prediction`` lets them decide, or vote.
"""
