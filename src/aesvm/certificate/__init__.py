"""How close a model is to the exact SVM: the numbers, their proof, and the words for them."""
