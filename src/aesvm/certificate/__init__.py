"""How close a model is to the exact SVM.

``certificate`` has the numbers of a model, ``records`` what is known of each of its machines,
``proof`` the proven bounds, ``text`` the words, and ``history`` the steps of a fit.
"""
