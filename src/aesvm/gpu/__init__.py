"""Fits and predictions on a GPU: ``device="cuda"`` of the five SVMs.

Nothing here imports CUDA before a device is asked for.
"""
