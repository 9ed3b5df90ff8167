"""Fits and predictions on a GPU: ``device="cuda"`` of every estimator.

Nothing here imports CUDA before a device is asked for.
"""
