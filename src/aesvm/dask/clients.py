"""Which client an estimator works with: the parameter ``client``, or the current one.

A client is a connection, and can neither be copied nor sent: clones of an estimator share it, and a
pickled estimator has none.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from distributed import Client, get_client, get_worker, worker_client
from sklearn.base import BaseEstimator

from aesvm.io.state import plain_state

#: Of an estimator with a client.
CLIENT_CONSTRAINTS: dict[str, list] = {"client": [Client, None]}


@contextmanager
def working_client(given: Client | None) -> Iterator[Client]:
    """The client that was given, or the current one, checked.

    Inside a task it makes room for the tasks that this one waits for.
    """
    with ExitStack() as stack:
        current = stack.enter_context(worker_client()) if _inside_a_task() else None
        client = given or current or _current_client()
        _check_can_wait(client)
        yield client


def clone_with_client(estimator: Any) -> Any:
    """A clone that works with the same client: the ``__sklearn_clone__`` of an estimator."""
    without = copy.copy(estimator)
    without.client = None
    clone = BaseEstimator.__sklearn_clone__(without)
    clone.client = estimator.client
    return clone


def state_without_client(estimator: Any) -> dict[str, Any]:
    """What is pickled, and copied: the ``__getstate__`` of an estimator."""
    return {**plain_state(estimator), "client": None}


def _check_can_wait(client: Client) -> None:
    """Refuse a client that cannot be waited for here."""
    if client.asynchronous:
        raise ValueError(
            "the dask.distributed client is asynchronous, and to wait for it here would stop its "
            "event loop: pass client=Client(address), a synchronous one, or wait in another "
            "thread, as in await asyncio.to_thread(model.fit, X, y)."
        )
    if client.status in ("closing", "closed"):
        raise ValueError(
            "the dask.distributed client is closed: pass client=Client(address), a new one, or "
            "client=None for the current one."
        )


def _inside_a_task() -> bool:
    try:
        get_worker()
    except ValueError:
        return False
    return True


def _current_client() -> Client:
    try:
        return get_client()
    except ValueError as error:
        raise ValueError(
            "there is no dask.distributed client: Client() starts workers on this machine, and "
            "Client(address) joins a cluster."
        ) from error
