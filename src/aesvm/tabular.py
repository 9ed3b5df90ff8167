"""Pipelines for tables of mixed columns: text, numbers with gaps, dates.

``describe_columns`` decides what becomes of each column; ``tabular_pipeline`` builds the pipeline:

- numbers: missing values become the median, with an indicator; then standardised;
- categories (text, booleans): one-hot, with rare levels joined and unknown ones allowed;
- dates: year, month and weekday, treated as numbers;
- constants, copies of the target and text that differs in every row are left out.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from aesvm.runtime.warn import warn
from aesvm.svc import AESVC
from aesvm.svr import AESVR

if TYPE_CHECKING:
    import pandas as pd

#: Whole numbers are classes if there are at most this many distinct ones.
MOST_CLASSES = 20

#: The fraction of texts that must parse for a column to hold dates.
_MOST_PARSE = 0.95

#: A text column with at least this fraction of distinct values looks like an identifier.
_NEARLY_UNIQUE = 0.9

_DIFFERS = "differs in nearly every row: is it an identifier?"

#: Rarer levels of a category are joined: below this many rows, or beyond this many levels.
_LEAST_ROWS, _MOST_LEVELS = 10, 40

#: A threshold that separates classes is no chance if each of them has this many rows.
_LEAST_CLASS = 3

#: C, epsilon and tol of a regression, as fractions of the target's standard deviation.
_OF_SPREAD = {"C": 1.0, "epsilon": 0.1, "tol": 1e-3}

_FILLED = "median for missing values, with an indicator; standardised"

_TREATMENT = {
    "number": "standardised",
    "number with gaps": _FILLED,
    "category": "one-hot, rare levels joined",
    "date": "year, month, weekday; standardised",
    "date with gaps": f"year, month, weekday; {_FILLED}",
}


class Column(NamedTuple):
    """What a column holds, and what becomes of it."""

    name: str
    kind: str  #: "number", "category", "date", or why it is left out
    treatment: str
    doubt: str = ""  #: what looks odd about it
    date_format: str | None = None
    no_dates: tuple[str, ...] = ()  #: texts of a column of dates that count as missing

    @property
    def used(self) -> bool:
        """Whether the model sees the column."""
        return self.treatment != "left out"


def tabular_pipeline(
    table: pd.DataFrame, target: str, *, task: str = "auto", **svm_parameters: Any
) -> Pipeline:
    """Build an unfitted pipeline for a table: columns prepared by type, then an SVM.

    Columns are found by name: a table to predict may have them in any order, and others too.
    A warning names columns that are left out, and those that look odd.

    Parameters
    ----------
    table : pandas.DataFrame
        The rows to learn from, with the target.
    target : str
        The column to learn.
    task : {"auto", "classification", "regression"}, default="auto"
        "auto" learns classes if the target is text, boolean or a few whole numbers.
    **svm_parameters : dict
        Parameters of the SVM, :class:`AESVC` or :class:`AESVR`. C, epsilon and tol of a
        regression are by default 1, 0.1 and 0.001 times the target's standard deviation.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        Steps "columns" (:class:`~aesvm.tabular.TableColumns`) and "svm".

    See Also
    --------
    aesvm.tabular.describe_columns : What becomes of each column.

    Examples
    --------
    >>> import pandas as pd
    >>> from aesvm import tabular_pipeline
    >>> colour, size = ["red", "blue"] * 20, [1.5, None, 2.5, 3.0, 0.5] * 8
    >>> ripe = [one == "red" and other != 0.5 for one, other in zip(colour, size)]
    >>> table = pd.DataFrame({"colour": colour, "size": size, "ripe": ripe})
    >>> pipeline = tabular_pipeline(table, "ripe", C=10.0)
    >>> X, y = table.drop(columns="ripe"), table["ripe"]
    >>> float(pipeline.fit(X, y).score(X, y))
    1.0
    """
    columns = describe_columns(table, target)
    for message in warnings_of(columns):
        warn(message)
    return pipeline_of(columns, table[target], task, **svm_parameters)


def describe_columns(table: pd.DataFrame, target: str) -> list[Column]:
    """Decide what becomes of each column of a table but its target.

    Parameters
    ----------
    table : pandas.DataFrame
    target : str
        The column to learn.

    Returns
    -------
    columns : list of Column
        In the table's order.

    Examples
    --------
    >>> import pandas as pd
    >>> from aesvm.tabular import describe_columns
    >>> table = pd.DataFrame({"a": [1, 2, 3, 5], "b": ["x", "x", "y", "y"], "y": [0, 1, 1, 0]})
    >>> [(column.name, column.kind) for column in describe_columns(table, "y")]
    [('a', 'number'), ('b', 'category')]
    """
    _check(table, target)
    y = table[target]
    return [_described(str(name), table[name], y) for name in table.columns if name != target]


def _check(table: Any, target: str) -> None:
    if not hasattr(table, "columns"):
        raise ValueError(f"table={type(table).__name__}: a pandas.DataFrame is needed.")
    named = [name for name in table.columns if isinstance(name, str)]
    if len(set(named)) < table.shape[1]:
        odd = [name for name in table.columns if not isinstance(name, str) or named.count(name) > 1]
        raise ValueError(f"table: the columns {odd[:20]} need unique names that are strings.")
    if target not in named:
        known = ", ".join(named[:20])
        raise ValueError(f"target={target!r}: a column of the table is needed, one of {known}.")
    if n_missing := int(table[target].isna().sum()):
        raise ValueError(
            f"target={target!r}: {n_missing} of {len(table)} rows have no value: leave these out, "
            "with table.dropna(subset=...)."
        )


def warnings_of(columns: list[Column]) -> list[str]:
    """What to say about columns: those left out and those that look odd."""
    left_out = [f"column {one.name!r} is left out: {one.kind}" for one in columns if not one.used]
    return left_out + [f"column {one.name!r} {one.doubt}" for one in columns if one.doubt]


def pipeline_of(
    columns: list[Column], y: pd.Series, task: str = "auto", **svm_parameters: Any
) -> Pipeline:
    """Build the pipeline for described columns and a target."""
    used = [one for one in columns if one.used]
    if not used:
        raise ValueError("table: no column is left to learn from.")
    numbers = make_pipeline(StandardScaler(), SimpleImputer(strategy="median", add_indicator=True))
    levels = make_pipeline(
        LevelNames(),
        OneHotEncoder(
            drop="if_binary",
            min_frequency=max(1, min(_LEAST_ROWS, len(y) // 100)),
            max_categories=_MOST_LEVELS,
            handle_unknown="infrequent_if_exist",
            sparse_output=False,
        ),
    )
    of_dates = [one for one in used if one.kind.startswith("date")]
    formats = {one.name: one.date_format for one in of_dates}
    dates = make_pipeline(
        DateParts(formats, {one.name: list(one.no_dates) for one in of_dates if one.no_dates}),
        *clone(numbers),
    )
    parts = [
        ("numbers", numbers, [one.name for one in used if one.kind.startswith("number")]),
        ("categories", levels, [one.name for one in used if one.kind == "category"]),
        ("dates", dates, list(formats)),
    ]
    prepared = TableColumns([one for one in parts if one[2]], sparse_threshold=0.0)
    return Pipeline([("columns", prepared), ("svm", svm_for(y, task, **svm_parameters))])


def svm_for(y: Any, task: str = "auto", **parameters: Any) -> AESVC | AESVR:
    """Build an unfitted SVM for a target; C, epsilon and tol of a regression follow its spread."""
    y = np.asarray(y)
    if task_of(y, task) == "classification":
        return AESVC(**parameters)
    spread = float(np.std(y.astype(np.float64))) or 1.0
    return AESVR(**{name: part * spread for name, part in _OF_SPREAD.items()} | parameters)


def task_of(y: Any, task: str = "auto") -> str:
    """Whether a target holds classes or values: "classification" or "regression"."""
    y = np.asarray(y)
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"task={task!r}: auto, classification or regression is needed.")
    if task == "regression" and y.dtype.kind not in "biuf":
        raise ValueError(f"task='regression': the target is {y[0]!s:.40}, which is not a number.")
    if task != "auto":
        return task
    if y.dtype.kind not in "iuf":
        return "classification"
    whole = bool(np.isfinite(y).all()) and np.array_equal(y, np.trunc(y))
    few = whole and len(np.unique(y)) <= MOST_CLASSES
    return "classification" if few else "regression"


class TableColumns(ColumnTransformer):
    """A ``ColumnTransformer`` of a table, whose errors name the column that is wrong.

    Columns of "numbers" may hold numbers as text.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.preprocessing import StandardScaler
    >>> from aesvm.tabular import TableColumns
    >>> columns = TableColumns([("numbers", StandardScaler(), ["a"])])
    >>> columns.fit_transform(pd.DataFrame({"a": [1.0, 3.0]}))
    array([[-1.],
           [ 1.]])
    >>> columns.transform(pd.DataFrame({"a": ["1.0", "one"]}))
    Traceback (most recent call last):
    ValueError: column 'a': 'one' is not a number.
    """

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Learn how to prepare the columns, and prepare them."""
        return super().fit_transform(self._checked(X), y, **params)

    def transform(self, X: Any, **params: Any) -> Any:
        """Prepare the columns of a table."""
        return super().transform(self._checked(X), **params)

    def _checked(self, X: Any) -> Any:
        import pandas as pd

        if not isinstance(X, pd.DataFrame):
            raise ValueError(f"X: a pandas DataFrame is needed, got {type(X).__name__}.")
        wanted = {kind: names for kind, _, names in self.transformers}
        missing = [one for names in wanted.values() for one in names if one not in X.columns]
        if missing:
            raise ValueError(f"X: columns are missing: {', '.join(map(repr, missing))}.")
        numbers = wanted.get("numbers", [])
        texts = [name for name in numbers if X[name].dtype.kind not in "biuf"]
        return X.assign(**{name: column_of_numbers(X[name]) for name in texts})


class DateParts(TransformerMixin, BaseEstimator):
    """Year, month and weekday of columns of dates.

    Parameters
    ----------
    formats : dict
        The format of each column, as ``strptime`` has it; None: pandas dates, or ISO 8601.
    no_dates : dict, default=None
        Texts of a column that count as missing. Others that are no dates are an error.

    Examples
    --------
    >>> import pandas as pd
    >>> from aesvm.tabular import DateParts
    >>> table = pd.DataFrame({"day": ["2015-07-01", "?"]})
    >>> DateParts({"day": "%Y-%m-%d"}, {"day": ["?"]}).fit_transform(table)
    array([[2.015e+03, 7.000e+00, 2.000e+00],
           [      nan,       nan,       nan]])
    """

    _parameter_constraints: ClassVar[dict] = {"formats": [dict], "no_dates": [dict, None]}

    def __init__(
        self, formats: dict[str, str | None], no_dates: dict[str, list[str]] | None = None
    ) -> None:
        self.formats = formats
        self.no_dates = no_dates

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn nothing but the names of the columns."""
        self.feature_names_in_ = np.array(list(self.formats), dtype=object)
        self.n_features_in_ = len(self.formats)
        return self

    def transform(self, X: Any) -> Any:
        """Three numbers for each date."""
        parts = []
        for name, form in self.formats.items():
            dates = _dates(X[name], form)
            known = X[name].notna() & ~X[name].isin((self.no_dates or {}).get(name, []))
            _refuse(name, X[name][known & dates.isna()], "date")
            parts += [dates.dt.year, dates.dt.month, dates.dt.day_of_week]
        return np.column_stack([np.asarray(one, dtype=np.float64) for one in parts])

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names such as ``day_year``."""
        parts = ("year", "month", "weekday")
        return np.array([f"{name}_{part}" for name in self.formats for part in parts], dtype=object)


class LevelNames(TransformerMixin, BaseEstimator):
    """Levels of categories as text, so that ``True``, "True", 1 and 1.0 need no care."""

    _parameter_constraints: ClassVar[dict] = {}

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn nothing but the names of the columns."""
        self.feature_names_in_ = np.array([str(name) for name in X.columns], dtype=object)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """A frame of texts; missing values are nan."""
        return X.astype(object).map(_level_name).astype(object)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns."""
        return self.feature_names_in_


def _level_name(value: Any) -> Any:
    import pandas as pd

    if pd.isna(value):
        return np.nan
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _described(name: str, values: pd.Series, y: pd.Series) -> Column:
    from pandas.api import types

    known = values.dropna()
    n_levels, n_known = known.nunique(), len(known)
    if n_levels <= 1 and (n_known == len(values) or not n_known):
        return Column(name, "a constant" if n_known else "empty", "left out")
    if _is_copy(values, y):
        return Column(name, "a copy of the target", "left out")
    is_leak = _decides(values, y) or _separates(values, y)
    doubt = "predicts the target perfectly: does it come from it?" if is_leak else ""
    gaps = "" if n_known == len(values) else " with gaps"
    is_bool = types.is_bool_dtype(values)
    if types.is_datetime64_any_dtype(values):
        return Column(name, f"date{gaps}", _TREATMENT[f"date{gaps}"], doubt)
    if types.is_numeric_dtype(values) and not is_bool:
        doubt = _doubt_of_key(known) or doubt
        return Column(name, f"number{gaps}", _TREATMENT[f"number{gaps}"], doubt)
    form = None if is_bool else _date_format(known)
    if form is not None:
        no_dates = tuple(map(str, known[_dates(known, form).isna()].unique()))
        if no_dates:
            gaps = " with gaps"
            doubt = doubt or f"has {no_dates[0][:40]!r}, which is no date and counts as missing"
        return Column(name, f"date{gaps}", _TREATMENT[f"date{gaps}"], doubt, form, no_dates)
    if n_levels == len(values):
        return Column(name, "text that differs in every row", "left out")
    if n_levels >= _NEARLY_UNIQUE * n_known and n_levels > MOST_CLASSES:
        doubt = _DIFFERS
    return Column(name, "category", _TREATMENT["category"], doubt)


def _is_copy(values: pd.Series, y: pd.Series) -> bool:
    """Whether each value goes with one target, and each target with one value.

    Values that hardly repeat would do so by chance: they must be a linear function of it.
    """
    n_values, n_targets = values.nunique(dropna=False), y.nunique(dropna=False)
    if n_values != n_targets:
        return False
    if n_values <= len(y) / 2:
        return _n_pairs(values, y) == n_values
    if values.dtype.kind not in "iuf" or y.dtype.kind not in "iuf" or n_values < 3:
        return False
    both = values.notna() & y.notna()
    x, t = (np.asarray(one[both], dtype=np.float64) for one in (values, y))
    slope, offset = np.polyfit(x - x.mean(), t, 1)
    return bool(np.allclose(slope * (x - x.mean()) + offset, t, rtol=1e-9, atol=1e-9 * t.std()))


def _decides(values: pd.Series, y: pd.Series) -> bool:
    """Whether the value of a column that repeats itself tells the target."""
    n_values = values.nunique(dropna=False)
    return n_values <= len(y) / 10 and _n_pairs(values, y) == n_values


def _separates(values: pd.Series, y: pd.Series) -> bool:
    """Whether one threshold of a number or date separates two classes."""
    n_rows = y.value_counts(dropna=False)
    if len(n_rows) != 2 or n_rows.min() < _LEAST_CLASS or len(y) <= MOST_CLASSES:
        return False
    if values.dtype.kind not in "iufM" or values.isna().any():
        return False
    one, other = (values[y == value] for value in n_rows.index)
    return bool(one.max() < other.min() or other.max() < one.min())


def _n_pairs(values: pd.Series, y: pd.Series) -> int:
    """How many distinct pairs of value and target there are."""
    return len(set(zip(values.factorize()[0].tolist(), y.factorize()[0].tolist(), strict=True)))


def _doubt_of_key(known: pd.Series) -> str:
    """What looks odd about whole numbers that are all different; empty if they are not."""
    if len(known) <= MOST_CLASSES or not known.is_unique:
        return ""
    values = np.asarray(known, dtype=np.float64)
    if not np.isfinite(values).all() or not np.array_equal(values, np.trunc(values)):
        return ""
    if np.ptp(values) < 2 * len(values):  # a sample of the rows has holes
        return "counts the rows: is it an identifier?"
    return _DIFFERS


def _date_format(known: pd.Series) -> str | None:
    """The format by which most texts are dates, if nearly all are."""
    from pandas.tseries.api import guess_datetime_format

    first = known.iloc[0]
    if not isinstance(first, str) or sum(one.isdigit() for one in first) < 4:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a format has the day first: both are tried
        forms = {guess_datetime_format(first, dayfirst=one): None for one in (False, True)}
    parsed = {form: _dates(known, form).notna().mean() for form in forms if form}
    best = max(parsed, key=lambda form: parsed[form], default=None)
    return best if best is not None and parsed[best] >= _MOST_PARSE else None


def _dates(values: pd.Series, form: str | None) -> pd.Series:
    """Dates of one format, ISO 8601 if None; what is none is missing."""
    import pandas as pd

    return pd.to_datetime(values, format=form or "ISO8601", errors="coerce")


def column_of_numbers(values: pd.Series) -> pd.Series:
    """A column of a table, which may hold text, as numbers; others are an error that names it."""
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce").astype(np.float64)
    _refuse(str(values.name), values[numbers.isna() & values.notna()], "number")
    return numbers


def _refuse(name: str, wrong: pd.Series, kind: str) -> None:
    """Raise an error that names the first of the wrong values, if there are any."""
    for value in wrong.iloc[:1]:
        raise ValueError(f"column {name!r}: {str(value)[:40]!r} is not a {kind}.")
