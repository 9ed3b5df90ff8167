"""The commands and their options.

A command is a signature, which typer reads. Its function has the same name, and is imported with
its module when it is needed: ``train(options, columns, screen)``. typer calls none of
them: it would catch errors of the work as well as its own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from aesvm import __version__
from aesvm.command.screen import Screen

app = typer.Typer(
    name="aesvm",
    help="Kernel SVMs on large data: LIBSVM's command line, with a certificate. "
    "[bold]aesvm fit table.csv --target column[/bold] makes a tested model of any table; "
    "a script that runs svm-train runs [bold]aesvm train[/bold].",
    epilog="Exit codes: 0 done, 1 data or model cannot be used, 2 usage, 3 a fault of aesvm, "
    "4 a library is missing, 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)


@functools.cache
def program() -> Any:
    """All commands as one callable, which takes a while to put together."""
    whole: Any = typer.main.get_command(app)
    for command in (whole, *whole.commands.values()):
        for option in command.get_params(typer.Context(command)):
            if getattr(option, "is_flag", False):
                option.metavar = ""  # a switch takes no value
    return whole


def _command(*shared: str) -> Callable[[Callable], Callable]:
    """Register a command, which has these options of ``_SHARED`` too, and returns its work."""

    def registered(signature: Callable) -> Callable:
        def prepared(**options: Any) -> Callable[[], None]:
            return functools.partial(_run, signature.__name__, options)

        own = inspect.signature(signature, eval_str=True)
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=of)
            for name, (of, option) in _SHARED.items()
            if name in shared
        ]
        parameters = [*own.parameters.values(), *more]
        prepared.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        prepared.__doc__ = signature.__doc__
        return app.command(signature.__name__.replace("_", "-"))(prepared)

    return registered


def _run(name: str, options: dict[str, Any]) -> None:
    module = {"predict": "models", "info": "convert", "warm_up": "train"}.get(name, name)
    function = getattr(import_module(f"aesvm.command.{module}"), name)
    from aesvm.command.data import DataOptions

    if options.get("output") in ("-", "/dev/stdout"):
        options["output"] = None  # standard output
    given = SimpleNamespace(**options)
    screen = Screen(options["json"], options.get("quiet", False))
    function(given, DataOptions.given(options), screen)


def _say_version(asked: bool) -> None:
    if asked:
        print(f"aesvm {__version__}")
        raise typer.Exit


@app.callback()
def before_any_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="The version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error comes from; anywhere in a line.")
    ] = False,
) -> None:
    """Before any command."""


def _option(*names: Any, help: str, panel: str | None = None, **others: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **others)


_column = functools.partial(_option, panel="Columns of tables")
_libsvm = functools.partial(_option, panel="LIBSVM's flags")
_ours = functools.partial(_option, panel="How it is trained")
_output = functools.partial(_option, panel="Output")


def _checked_time(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"{seconds:g}: seconds above 0 are needed.")
    return seconds


def _checked_jobs(jobs: int | None) -> int | None:
    if jobs == 0:
        raise typer.BadParameter("0: a number of threads, or -1, is needed.")
    return jobs


Text = str | None
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A data file: LIBSVM's text, CSV, Parquet or .npy, recognised by content, then "
        "by name; - is standard input.",
    ),
]
Jobs = Annotated[int | None, _ours(help="threads; -1: all processors", callback=_checked_jobs)]

#: Options that several commands have: their types, and defaults first.
_SHARED: dict[str, tuple[Any, Any]] = {
    "probability": (
        int,
        _libsvm(0, "-b", min=0, max=1, help="probabilities: 0 only, models have none"),
    ),
    "class_weight": (
        list[str] | None,
        _libsvm(
            None,
            metavar="CLASS=WEIGHT",
            help="C of this class is weight times C, as -wi weight; or balanced",
        ),
    ),
    "target": (
        Text,
        _column(
            None,
            help="The column to learn, by name or number from 0; by default the one called "
            "target. For .npy rows, a file of targets.",
        ),
    ),
    "features": (Text, _column(None, help="Columns to learn from: a,b,c.")),
    "drop": (
        list[str] | None,
        _column(None, help="Columns to leave out: a,b,c; may be repeated."),
    ),
    "weight": (Text, _column(None, help="The column with a weight for each row.")),
    "weights_file": (
        Text,
        _option(None, "-W", help="A file with the weight of each row, one a line."),
    ),
    "header": (
        bool | None,
        _column(
            None,
            help="Whether the first line of a CSV names the columns. By default it is recognised.",
        ),
    ),
    "delimiter": (Text, _column(None, help="The character between fields of a CSV.")),
    "classes": (
        Text,
        _column(
            None,
            help="What the target of a CSV holds: numbers or strings. By default its "
            "first row decides.",
        ),
    ),
    "format": (Text, _column(None, help="Of the file: libsvm, csv, parquet or npy.")),
    "memory": (
        Text,
        _option(
            None,
            help='Memory that rows may take, such as "2 GiB"; larger data is streamed. By default '
            "a quarter of the machine's.",
        ),
    ),
    "device": (str, _option("cpu", help="What computes: cpu, or cuda for an NVIDIA GPU.")),
    "quiet": (
        bool,
        _option(False, "-q", "--quiet", help="print only warnings, errors and results"),
    ),
    "json": (bool, _output(False, "--json", help="print one JSON object, for programs")),
}

#: Those about data files that every command has.
_TABLE = ("target", "drop", "header", "delimiter", "format", "json")


@_command(*_TABLE, "class_weight", "features", "weight", "memory", "device", "quiet")
def fit(
    data: Data,
    task: Annotated[str, _option(help="auto, classification or regression")] = "auto",
    scoring: Annotated[
        Text, _option(help="what the search maximises, by scikit-learn's name: roc_auc")
    ] = None,
    group: Annotated[
        Text,
        _column(help="Keep rows with the same value of this column in one fold, or in the test."),
    ] = None,
    time_limit: Annotated[
        float | None,
        _option(metavar="SECONDS", help="the time for search and training", callback=_checked_time),
    ] = None,
    test: Annotated[float, _option(help="the share of rows held out")] = 0.2,
    search_rows: Annotated[
        int,
        _option(min=10, help="the most rows to search on: fewer take less time"),
    ] = 5000,
    seed: Annotated[int, _option(min=0, help="the seed that chooses the rows held out")] = 0,
    jobs: Jobs = -1,
    output: Annotated[
        Text,
        _output(
            "-o",
            "--output",
            help="The model file to write; by default, here, DATA.aesvm without .csv.",
        ),
    ] = None,
    report: Annotated[
        Text, _output(help="The report to write; by default the model's name with .html.")
    ] = None,
) -> None:
    """Make a tested model of a table: prepare columns, search, train, certify, report."""


@_command(*_SHARED)
def train(
    data: Data,
    model: Annotated[
        Text,
        typer.Argument(
            metavar="MODEL",
            help="The model file to write, LIBSVM's or a name that ends with .aesvm; by default "
            "DATA.model, here.",
        ),
    ] = None,
    svm_type: Annotated[
        int,
        _libsvm(
            "-s",
            min=0,
            max=4,
            metavar="TYPE",
            help="0 C-SVC, 1 nu-SVC, 2 one-class SVM, 3 epsilon-SVR, 4 nu-SVR",
        ),
    ] = 0,
    kernel_type: Annotated[
        int,
        _libsvm(
            "-t",
            min=0,
            max=4,
            metavar="KERNEL",
            help="0 linear u'v, 1 polynomial (gamma u'v + coef0)^degree, 2 RBF "
            "exp(-gamma |u-v|^2), 3 sigmoid tanh(gamma u'v + coef0), 4 the kernel matrix in DATA",
        ),
    ] = 2,
    degree: Annotated[int, _libsvm("-d", help="degree")] = 3,
    gamma: Annotated[float, _libsvm("-g", help="gamma; 0: 1 / number of features")] = 0.0,
    coef0: Annotated[float, _libsvm("-r", help="coef0")] = 0.0,
    C: Annotated[float, _libsvm("-c", help="C of C-SVC and both SVR")] = 1.0,
    nu: Annotated[float, _libsvm("-n", help="nu of nu-SVC, one-class SVM and nu-SVR")] = 0.5,
    epsilon: Annotated[float, _libsvm("-p", help="epsilon of epsilon-SVR")] = 0.1,
    cache_size: Annotated[float, _libsvm("-m", help="cache of kernel rows, in MB")] = 100.0,
    tol: Annotated[float, _libsvm("-e", help="tolerance for stopping")] = 0.001,
    shrinking: Annotated[int, _libsvm("-h", min=0, max=1, help="whether to shrink, 0 or 1")] = 1,
    folds: Annotated[
        int | None, _libsvm("-v", min=2, metavar="N", help="N-fold cross-validation")
    ] = None,
    refine: Annotated[str, _ours(help="auto, exact or a number of rounds")] = "auto",
    hull_tol: Annotated[
        float, _ours(help="largest squared distance of a row from what represents it")
    ] = 1e-3,
    max_vectors: Annotated[int | None, _ours(min=1, help="the most support vectors")] = None,
    time_limit: Annotated[
        float | None,
        _ours(
            metavar="SECONDS",
            help="for training; with -v, for the model of each fold",
            callback=_checked_time,
        ),
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Train a model, as svm-train does, with its flags and their defaults."""


@_command(*_TABLE, "features", "classes", "probability", "device", "quiet")
def predict(
    data: Data,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model file, LIBSVM's or .aesvm.")
    ],
    output: Annotated[
        Text,
        typer.Argument(
            metavar="OUTPUT", help="The file to write, a prediction a line; else standard output."
        ),
    ] = None,
) -> None:
    """Predict the rows of a file, as svm-predict does, in the memory of a few of them."""


@_command(*_TABLE, "features", "weight", "classes")
def scale(
    data: Data,
    lower: Annotated[float, typer.Option("-l", help="lower limit of features")] = -1.0,
    upper: Annotated[float, typer.Option("-u", help="upper limit of features")] = 1.0,
    targets: Annotated[
        tuple[float, float] | None, typer.Option("-y", help="limits of targets; else as they are")
    ] = None,
    save: Annotated[Text, typer.Option("-s", help="write ranges to this file")] = None,
    restore: Annotated[Text, typer.Option("-r", help="read ranges from this file")] = None,
    output: Annotated[Text, typer.Option("-o", "--output", help="the file to write")] = None,
) -> None:
    """Scale features to a range, as svm-scale does, to standard output or a file."""


@_command(*_TABLE, "features", "weight", "weights_file", "classes")
def convert(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A model or data file.")],
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="The file to write.")],
) -> None:
    """Write a model as LIBSVM's, .aesvm or ONNX, or a data file as LIBSVM's, CSV or Parquet."""


@_command(*_TABLE, "classes")
def info(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A model or data file.")],
) -> None:
    """Say what a model or data file holds."""


@_command("json")
def warm_up() -> None:
    """Compile what fits need, ahead of use: for images and continuous integration."""
