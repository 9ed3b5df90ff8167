"""ONNX: models that run without Python, through skl2onnx (the extra ``aesvm[onnx]``).

A model is converted as its twin of scikit-learn, by ONNX's operators for SVMs. They compute in
single precision, whatever the precision of the input.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer

import aesvm
from aesvm.tabular import TableColumns

_ESTIMATORS = tuple(getattr(aesvm, name) for name in aesvm.__all__ if name.startswith("AE"))

_KERNELS = ("linear", "poly", "rbf", "sigmoid")

#: What skl2onnx calls the twins.
_REGRESSORS, _OUTLIERS, _CLASSIFIERS = "SklearnSVR", "SklearnOneClassSVM", "SklearnSVC"


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
        from skl2onnx import update_registered_converter, update_registered_parser
    except ImportError as error:
        raise ImportError(
            "register_converters needs skl2onnx: install it, with pip install 'aesvm[onnx]'."
        ) from error
    for cls in _ESTIMATORS:
        update_registered_converter(
            cls, f"Aesvm{cls.__name__}", _shapes, _convert, overwrite=True, parser=_outputs
        )
    update_registered_parser(TableColumns, _columns)


def _kind(model: Any) -> str:
    if hasattr(model, "classes_"):
        return _CLASSIFIERS
    return _OUTLIERS if hasattr(model, "decision_function") else _REGRESSORS


def _outputs(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """The variables that an estimator gives."""
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    operator = scope.declare_local_operator(f"Aesvm{type(model).__name__}", model)
    operator.inputs = inputs
    values = _float_type(inputs[0])()
    if _kind(model) == _REGRESSORS:
        operator.outputs.append(scope.declare_local_variable("values", values))
        return operator.outputs
    labels = getattr(model, "classes_", np.ones(1)).tolist()
    label = StringTensorType() if isinstance(labels[0], str) else Int64TensorType()
    operator.outputs.append(scope.declare_local_variable("label", label))
    operator.outputs.append(scope.declare_local_variable("scores", values))
    return operator.outputs


def _columns(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """The variables that the columns of a table give."""
    from skl2onnx._parse import sklearn_parsers_map

    for kind, part, names in model.transformers_:
        if kind == "numbers" and part[-1].indicator_.features_.size:
            gaps = ", ".join(repr(names[at]) for at in part[-1].indicator_.features_)
            raise ValueError(
                f"The model marks missing values of {gaps}, which skl2onnx cannot convert: fill "
                "them before training."
            )
    return sklearn_parsers_map[ColumnTransformer](scope, model, inputs, custom_parsers)


def _shapes(operator: Any) -> None:
    n_rows = operator.inputs[0].get_first_dimension()
    *labels, values = operator.outputs
    for one in labels:
        one.type.shape = [n_rows]
    model = operator.raw_operator
    n_classes, n_columns = len(getattr(model, "classes_", ())), 1
    if n_classes > 2:
        ovr = model.decision_function_shape == "ovr"
        n_columns = n_classes if ovr else n_classes * (n_classes - 1) // 2
    values.type.shape = [n_rows, n_columns]


def _float_type(variable: Any) -> Any:
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    return DoubleTensorType if isinstance(variable.type, DoubleTensorType) else FloatTensorType


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the twin, between casts to single precision and back."""
    from onnx import TensorProto
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    model = operator.raw_operator
    _check(model)

    def add(
        name: str, source: Any, into: Any, constant: int | None = None, **attributes: Any
    ) -> None:
        inputs = [source.full_name]
        if constant is not None:
            inputs.append(scope.get_unique_variable_name("aesvm"))
            container.add_initializer(inputs[-1], TensorProto.INT64, [1], [constant])
        node = scope.get_unique_operator_name("aesvm")
        container.add_node(name, inputs, into.full_name, name=node, **attributes)

    (given,), (*labels, values) = operator.inputs, operator.outputs
    twin = scope.declare_local_operator(_kind(model), model.to_sklearn())
    rows = scope.declare_local_variable("rows", FloatTensorType(given.type.shape))
    add("Cast", given, rows, to=TensorProto.FLOAT)
    twin.inputs.append(rows)
    for label in labels:
        twin.outputs.append(scope.declare_local_variable("twin_label", type(label.type)()))
        add("Reshape", twin.outputs[0], label, -1)
    found = scope.declare_local_variable("twin_values", FloatTensorType())
    twin.outputs.append(found)
    if len(getattr(model, "classes_", ())) == 2:  # of which the second column is the negative
        found = scope.declare_local_variable("decision_values", FloatTensorType())
        add("Gather", twin.outputs[-1], found, 0, axis=1)
    is_double = isinstance(given.type, DoubleTensorType)
    add("Cast", found, values, to=TensorProto.DOUBLE if is_double else TensorProto.FLOAT)


def _check(model: Any) -> None:
    """Refuse what ONNX's operators do not have."""
    if model.kernel not in _KERNELS:
        raise ValueError(
            f"kernel={model.kernel!r}: ONNX has {', '.join(_KERNELS)}, and no matrix or callable."
        )
    if getattr(model, "break_ties", False) and len(model.classes_) > 2:
        raise ValueError("break_ties=True: ONNX settles ties of votes by the order of classes.")
    labels = getattr(model, "classes_", np.ones(1)).tolist()
    if not all(isinstance(one, str) for one in labels) and not all(
        isinstance(one, int | float) and one == int(one) for one in labels
    ):
        raise ValueError(f"classes_ has {labels[:5]}: labels in ONNX are whole numbers or strings.")
