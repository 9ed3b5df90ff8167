"""The dual of a weighted SVM: ``smo`` has the loop, ``host`` what the processor does in it.

``state`` holds variables and scores, ``working_set`` chooses the variables of an iteration and
``pair_updates`` solves for them. ``small`` solves many small duals of two classes.
"""
