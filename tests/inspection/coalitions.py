"""The slow, independent answers: sums over all coalitions."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np


def by_coalitions(decide, X, background, players):
    """Shapley values and interaction indices of any function, by their definitions.

    ``decide`` takes rows to their outputs, (n_rows, n_outputs); ``players`` are lists of columns.
    """
    n_players = len(players)
    every = [
        frozenset(one)
        for size in range(n_players + 1)
        for one in combinations(range(n_players), size)
    ]
    worth = {}
    for coalition in every:
        columns = [column for player in sorted(coalition) for column in players[player]]
        mixed = np.repeat(background[None], len(X), axis=0)
        mixed[:, :, columns] = X[:, None, columns]
        values = decide(mixed.reshape(-1, X.shape[1]))
        worth[coalition] = values.reshape(len(X), len(background), -1).mean(axis=1)
    n_outputs = worth[frozenset()].shape[1]
    values = np.zeros((len(X), n_players, n_outputs))
    indices = np.zeros((len(X), n_players, n_players, n_outputs))
    for i in range(n_players):
        for coalition in every:
            if i in coalition:
                continue
            size = len(coalition)
            share = factorial(size) * factorial(n_players - size - 1) / factorial(n_players)
            values[:, i] += share * (worth[coalition | {i}] - worth[coalition])
            for j in set(range(n_players)) - coalition - {i}:
                share = factorial(size) * factorial(n_players - size - 2) / factorial(n_players - 1)
                indices[:, i, j] += share * (
                    worth[coalition | {i, j}]
                    - worth[coalition | {i}]
                    - worth[coalition | {j}]
                    + worth[coalition]
                )
    return values, indices


def decisions(machine):
    """The decision values of a fitted machine, from its attributes, in plain NumPy.

    Those of two classes and of one machine have one column, those of more classes one for a pair.
    """
    dense = [
        one.toarray() if hasattr(one, "toarray") else one
        for one in (machine.support_vectors_, machine.dual_coef_)
    ]
    vectors, dual = dense

    def decide(rows):
        if machine.kernel == "linear":
            values = rows @ vectors.T
        else:
            apart = ((rows[:, None] - vectors[None]) ** 2).sum(axis=2)
            values = np.exp(-machine.gamma_ * apart)
        n_classes = len(dual) + 1
        if n_classes == 2:
            return values @ dual.T + machine.intercept_
        ends = np.cumsum(machine.n_support_)
        of_class = [slice(end - n, end) for end, n in zip(ends, machine.n_support_, strict=True)]
        columns = [
            values[:, of_class[i]] @ dual[j - 1, of_class[i]]
            + values[:, of_class[j]] @ dual[i, of_class[j]]
            for i, j in combinations(range(n_classes), 2)
        ]
        return np.stack(columns, axis=1) + machine.intercept_

    return decide
