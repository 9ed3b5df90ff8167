"""Trained SVMs, from weighted sets to exact ones.

``formulation`` says what a formulation of the SVM must offer, ``hinge`` is one. ``problem`` has
what is trained, ``training`` trains it, ``rounds`` is the loop that takes a representative set
towards the exact SVM, and ``memory`` the place of rows in memory. Many classes are pairs of them
(``one_vs_one``); ``classifier`` trains all pairs, ``fitted`` puts them together as SVC does, and
``prediction`` lets them vote.
"""
