"""ONNX: models that run without Python, through skl2onnx (the extra ``aesvm[onnx]``).

ONNX has operators of its own for SVMs, which compute in single precision: sums over thousands of
support vectors lose digits there. The converters here are made of matrix products instead, in
double precision, whatever the precision of the input:

    K = k(X, vectors),   values = K W + b,

with a column of W for every pair of classes. Classes have their votes by another product with a
constant matrix, as in ``machines.one_vs_one``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import aesvm
from aesvm.estimators.prediction import model_of
from aesvm.machines.one_vs_one import as_array, pair_classes, turned_pairs

_ESTIMATORS = tuple(getattr(aesvm, name) for name in aesvm.__all__ if name.startswith("AE"))


def register_converters() -> None:
    """Have skl2onnx know the estimators of this package, alone and in pipelines.

    A classifier gives ``label`` and ``scores``, its decision values, of shape (n_samples, 1) where
    there are two classes; so does AEOneClassSVM. A regressor gives ``values``, of shape
    (n_samples, 1).

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> import skl2onnx
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> from aesvm.onnx import register_converters
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> model = AESVC(gamma=1.0).fit(X, y)
    >>> register_converters()
    >>> graph = skl2onnx.to_onnx(model, X[:1].astype(np.float32))
    >>> session = onnxruntime.InferenceSession(graph.SerializeToString())
    >>> labels, scores = session.run(None, {"X": X.astype(np.float32)})
    >>> bool((labels == model.predict(X)).mean() > 0.999)
    True
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError as error:
        raise ImportError(
            "register_converters needs skl2onnx: install it, with pip install 'aesvm[onnx]'."
        ) from error
    for cls in _ESTIMATORS:
        update_registered_converter(
            cls, f"Aesvm{cls.__name__}", _shapes, _convert, overwrite=True, parser=_outputs
        )


def _outputs(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """The variables that an estimator gives."""
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    operator = scope.declare_local_operator(f"Aesvm{type(model).__name__}", model)
    operator.inputs = inputs
    values = _float_type(inputs[0])
    if not hasattr(model, "decision_function"):
        operator.outputs.append(scope.declare_local_variable("values", values()))
        return operator.outputs
    labels = getattr(model, "classes_", np.zeros(0, dtype=int))
    kind = Int64TensorType if _are_whole(labels) else StringTensorType
    operator.outputs.append(scope.declare_local_variable("label", kind()))
    operator.outputs.append(scope.declare_local_variable("scores", values()))
    return operator.outputs


def _shapes(operator: Any) -> None:
    n_rows = operator.inputs[0].get_first_dimension()
    *labels, values = operator.outputs
    for one in labels:
        one.type.shape = [n_rows]
    classes = getattr(operator.raw_operator, "classes_", ())
    n_columns = 1
    if len(classes) > 2:
        ovr = operator.raw_operator.decision_function_shape == "ovr"
        n_columns = len(classes) if ovr else len(classes) * (len(classes) - 1) // 2
    values.type.shape = [n_rows, n_columns]


def _float_type(variable: Any) -> Any:
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    return DoubleTensorType if isinstance(variable.type, DoubleTensorType) else FloatTensorType


def _are_whole(labels: NDArray) -> bool:
    if labels.dtype.kind in "biu":
        return True
    if all(isinstance(label, str) for label in labels.tolist()):
        return False
    if all(isinstance(label, int | float) and label == int(label) for label in labels.tolist()):
        return True
    raise ValueError(
        f"classes_ has {labels.tolist()[:5]}: labels in ONNX are whole numbers or strings."
    )


class _Graph:
    """Nodes that are added one after the other, each with a name of its own."""

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container = scope, container

    def add(self, operator: str, *inputs: Any, into: str | None = None, **attributes: Any) -> str:
        """The name of what an operator gives; inputs are names, or constants."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        result = into or self.scope.get_unique_variable_name("aesvm")
        node = self.scope.get_unique_operator_name("aesvm")
        self.container.add_node(operator, names, result, name=node, **attributes)
        return result

    def constant(self, values: Any) -> str:
        """Numbers in double precision, whole ones of 64 bits, or strings."""
        from onnx import TensorProto

        array = np.asarray(values)
        kinds = {"i": TensorProto.INT64, "f": TensorProto.DOUBLE}
        kind = kinds.get(array.dtype.kind, TensorProto.STRING)
        flat = array.ravel().tolist()
        if kind == TensorProto.STRING:
            flat = [text.encode() for text in flat]
        name = self.scope.get_unique_variable_name("aesvm")
        self.container.add_initializer(name, kind, list(array.shape), flat)
        return name

    def cast(self, values: str, kind: Any, into: str | None = None) -> str:
        return self.add("Cast", values, into=into, to=int(kind))

    def kernel(self, model: Any, rows: str) -> str:
        """The kernel matrix of some rows with the support vectors."""
        spec = model.spec
        if spec.kernel == "precomputed":
            return self.add("Gather", rows, model.support.astype(np.int64), axis=1)
        if spec.kernel not in ("linear", "rbf", "poly", "sigmoid"):
            raise ValueError(f"kernel={spec.kernel!r} has no ONNX graph.")
        vectors = np.asarray(as_array(model.vectors), dtype=np.float64)
        # not as a node of its own: onnxruntime would round it to single precision
        factor = float(spec.gamma) if spec.kernel in ("poly", "sigmoid") else 1.0
        products = self.add("MatMul", rows, factor * vectors.T)
        if spec.kernel == "linear":
            return products
        if spec.kernel == "rbf":
            ones = np.ones((vectors.shape[1], 1))
            squares = self.add("MatMul", self.add("Mul", rows, rows), ones)
            sums = self.add("Add", squares, np.square(vectors).sum(axis=1)[None, :])
            distances = self.add("Sub", sums, self.add("Mul", products, 2.0))
            return self.add("Exp", self.add("Mul", distances, -float(spec.gamma)))
        inner = self.add("Add", products, float(spec.coef0))
        if spec.kernel == "poly":
            return self.add("Pow", inner, float(spec.degree))
        return self.add("Tanh", inner)

    def votes(self, values: str, comparison: str, n_classes: int, turned: Any = False) -> str:
        """Votes of every class, from the values of all pairs; see ``one_vs_one``.

        Where a pair is ``turned``, its value is positive for its second class.
        """
        from onnx import TensorProto

        won = self.add(comparison, values, 0.0)
        first, second = _sides(n_classes)
        swapped = np.reshape(turned, (-1, 1))
        first, second = np.where(swapped, second, first), np.where(swapped, first, second)
        won = self.cast(won, TensorProto.DOUBLE)
        return self.add("Add", self.add("MatMul", won, first - second), second.sum(axis=0))

    def one_vs_rest(self, values: str, n_classes: int) -> str:
        first, second = _sides(n_classes)
        sums = self.add("MatMul", values, first - second)
        size = self.add("Mul", self.add("Add", self.add("Abs", sums), 1.0), 3.0)
        votes = self.votes(values, "GreaterOrEqual", n_classes)
        return self.add("Add", votes, self.add("Div", sums, size))


def _sides(n_classes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Which class is the first of every pair, and which the second: ones in a line of zeros."""
    first, second = pair_classes(n_classes)
    return np.eye(n_classes)[first], np.eye(n_classes)[second]


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a model to a graph."""
    from onnx import TensorProto
    from skl2onnx.common.data_types import DoubleTensorType

    estimator = operator.raw_operator
    if callable(estimator.kernel):
        raise ValueError(f"kernel={estimator.kernel!r} is a callable, which ONNX cannot have.")
    model, graph = model_of(estimator), _Graph(scope, container)
    is_double = isinstance(operator.inputs[0].type, DoubleTensorType)
    precision = TensorProto.DOUBLE if is_double else TensorProto.FLOAT
    rows = graph.cast(operator.inputs[0].full_name, TensorProto.DOUBLE)
    machines = list(model.at_vectors())
    weights = np.zeros((len(model.support), len(machines)))
    for number, machine in enumerate(machines):
        weights[machine.rows, number] = machine.coefs
    offsets = np.array([machine.offset for machine in machines])
    values = graph.add("Add", graph.add("MatMul", graph.kernel(model, rows), weights), offsets)
    *labels, scores = [one.full_name for one in operator.outputs]
    if hasattr(estimator, "classes_"):
        values = _decide(graph, model, values, labels[0])
    elif labels:
        is_outlier = graph.cast(graph.add("LessOrEqual", values, 0.0), TensorProto.INT64)
        signs = graph.add("Sub", np.array(1), graph.add("Mul", is_outlier, np.array(2)))
        graph.add("Reshape", signs, np.array([-1]), into=labels[0])
    graph.cast(values, precision, into=scores)


def _decide(graph: _Graph, model: Any, values: str, label: str) -> str:
    """Add the label of each row; the name of the decision values is returned."""
    from onnx import TensorProto

    n_classes = len(model.classes)
    scores = values
    if n_classes == 2:
        scores = graph.add("Neg", values)
    elif model.shape == "ovr":
        scores = graph.one_vs_rest(values, n_classes)
    order = np.arange(n_classes) if model.tie_order is None else model.tie_order
    if model.break_ties and n_classes > 2:
        order, ranked = np.arange(n_classes), scores
    else:
        turned = turned_pairs(order)  # a value of 0 is a vote for the later class of its pair
        signed = graph.add("Mul", values, np.where(turned, -1.0, 1.0))
        votes = graph.votes(signed, "Greater", n_classes, turned)
        ranked = graph.add("Gather", votes, order, axis=1)
        ranked = graph.cast(ranked, TensorProto.FLOAT)
    winner = graph.add("ArgMax", ranked, axis=1, keepdims=0)
    classes = model.classes[order]
    known = classes.astype(np.int64) if _are_whole(classes) else classes.astype(str)
    graph.add("Gather", known, winner, into=label)
    return scores
