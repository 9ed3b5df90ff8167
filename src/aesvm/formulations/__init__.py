"""The five formulations of the SVM, each a loss and its dual.

``protocol`` says what a formulation must offer. ``hinge`` and ``nu_hinge`` classify, ``tube`` and
``nu_tube`` are regression, ``one_class`` finds outliers.
"""
