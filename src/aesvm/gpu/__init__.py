"""Fits and predictions on a GPU: ``device="cuda"`` of the estimators.

Nothing here imports CUDA before a device is asked for.
"""
