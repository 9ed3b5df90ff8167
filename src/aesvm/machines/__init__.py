"""Machines: SVMs trained on the rows of a fit, and what they decide.

``processor`` is what computes, and ``training_kernel`` the kernel matrix of a fit's rows on it.
``problem`` has what is trained, ``training`` trains it, ``rounds`` is the loop that takes a
representative set towards the exact SVM, and ``memory`` the place of rows in memory. ``rows`` and
``fit`` train all machines of some rows; many classes are pairs of them (``one_vs_one``), trained
many at a time where they are small (``small_pairs``). ``results`` is what is known of trained
machines, ``fitted`` puts them together as scikit-learn does, and ``prediction`` lets them vote.
"""
