"""The commands and their options.

A command returns what is to be done, and does not do it: typer has errors of its own to deal with,
and not those of the work. What it takes is imported when it is asked for. Options of columns are
parameters of every command that has them, because typer reads signatures; ``_columns`` takes their
values from typer's context.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any

import typer

from aesvm import __version__
from aesvm.command import options as o
from aesvm.command.screen import Screen

app = typer.Typer(
    name="aesvm",
    help="Kernel SVMs on large data: LIBSVM's command line, with a certificate. "
    "A script that runs svm-train runs [bold]aesvm train[/bold].",
    epilog="Exit codes: 0 done, 1 data or model cannot be used, 2 usage, 3 a fault of aesvm, "
    "4 a library is missing, 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)


#: What a command is to do.
Work = Callable[[], None]


@cache
def program() -> Any:
    """The commands as one callable, which takes a while to put together."""
    whole: Any = typer.main.get_command(app)
    for command in (whole, *whole.commands.values()):
        for option in command.get_params(typer.Context(command)):
            if getattr(option, "is_flag", False):
                option.metavar = ""  # a switch takes no value
    return whole


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


def _columns(context: typer.Context) -> Any:
    """The options about the data file; a command need not have all of them."""
    from aesvm.command.data import DataOptions

    given = {name: context.params.get(name) for name in DataOptions._fields}
    delimiter = given["delimiter"]
    return DataOptions(
        **given
        | {
            "features": o.listed(given["features"]),
            "ignore": tuple(o.listed(given["ignore"]) or ()),
            "delimiter": {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter),
        }
    )


def _file(output: str | None) -> str | None:
    """The file to write to; None: standard output, which "-" and "/dev/stdout" are too."""
    return None if output in ("-", "/dev/stdout") else output


@app.command()
def train(
    context: typer.Context,
    data: o.Data,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="The model file to write; else DATA.model (with --native, DATA.aesvm), here.",
        ),
    ] = None,
    svm_type: o.SvmType = 0,
    kernel_type: o.KernelType = 2,
    degree: o.Degree = 3,
    gamma: o.Gamma = 0.0,
    coef0: o.Coef0 = 0.0,
    cost: o.Cost = 1.0,
    nu: o.Nu = 0.5,
    epsilon: o.Epsilon = 0.1,
    cache: o.Cache = 100.0,
    tolerance: o.Tolerance = 0.001,
    shrinking: o.Shrinking = 1,
    probability: o.Probability = 0,
    class_weight: o.ClassWeight = None,
    folds: o.Folds = None,
    quiet: o.Quiet = False,
    refine: o.Refine = "auto",
    hull_tol: o.HullTol = 1e-3,
    max_vectors: o.MaxVectors = None,
    jobs: o.Jobs = None,
    native: o.Native = False,
    target: o.Target = None,
    features: o.Features = None,
    ignore: o.Ignore = None,
    weight: o.Weight = None,
    weights_file: o.WeightsFile = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    classes: o.Classes = None,
    format: o.FormatName = None,
    memory: o.Memory = None,
    json: o.Json = False,
) -> Work:
    """Train a model, as svm-train does, with its flags and their defaults."""
    from aesvm.command.train import TrainOptions
    from aesvm.command.train import train as run

    options = TrainOptions(
        svm_type=svm_type,
        kernel_type=kernel_type,
        degree=degree,
        gamma=gamma,
        coef0=coef0,
        C=cost,
        nu=nu,
        epsilon=epsilon,
        cache_size=cache,
        tol=tolerance,
        shrinking=shrinking,
        probability=probability,
        class_weight=tuple(class_weight or ()),
        folds=folds,
        refine=refine,
        hull_tol=hull_tol,
        max_vectors=max_vectors,
        jobs=jobs,
        native=native,
    )
    columns = _columns(context)
    return partial(run, data, model, options, columns, Screen(json, quiet))


@app.command()
def predict(
    context: typer.Context,
    data: o.Data,
    model: o.ModelFile,
    output: Annotated[
        str | None,
        typer.Argument(metavar="OUTPUT", help="A prediction a line; else standard output."),
    ] = None,
    probability: o.Probability = 0,
    quiet: o.Quiet = False,
    target: o.Target = None,
    features: o.Features = None,
    ignore: o.Ignore = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    classes: o.Classes = None,
    format: o.FormatName = None,
    json: o.Json = False,
) -> Work:
    """Predict the rows of a file, as svm-predict does, in the memory of a few of them."""
    from aesvm.command.predict import predict as run

    columns = _columns(context)
    return partial(run, data, model, _file(output), probability, columns, Screen(json, quiet))


@app.command()
def scale(
    context: typer.Context,
    data: o.Data,
    lower: Annotated[float, typer.Option("-l", help="lower limit of features")] = -1.0,
    upper: Annotated[float, typer.Option("-u", help="upper limit of features")] = 1.0,
    targets: Annotated[
        tuple[float, float] | None, typer.Option("-y", help="limits of targets; else as they are")
    ] = None,
    save: Annotated[str | None, typer.Option("-s", help="write ranges to this file")] = None,
    restore: Annotated[str | None, typer.Option("-r", help="read ranges from this file")] = None,
    output: o.Output = None,
    target: o.Target = None,
    features: o.Features = None,
    ignore: o.Ignore = None,
    weight: o.Weight = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    classes: o.Classes = None,
    format: o.FormatName = None,
    json: o.Json = False,
) -> Work:
    """Scale features to a range, as svm-scale does, to standard output or a file."""
    from aesvm.command.scale import scale as run

    columns = _columns(context)
    limits, to = (lower, upper), _file(output)
    return partial(run, data, columns, limits, targets, save, restore, to, Screen(json))


@app.command()
def fit(
    context: typer.Context,
    data: o.Data,
    target: o.Target = None,
    task: Annotated[
        str, typer.Option("--task", help="auto, classification or regression")
    ] = "auto",
    test: Annotated[float, typer.Option("--test", help="the share of rows held out")] = 0.2,
    search_rows: Annotated[
        int,
        typer.Option(
            "--search-rows", min=10, help="the most rows to search on: fewer, and it is shorter"
        ),
    ] = 5000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of the rows held out")] = 0,
    jobs: o.Jobs = -1,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            help="The model file to write; else DATA.aesvm, here, without .csv and the like.",
        ),
    ] = None,
    report: Annotated[
        str | None, typer.Option("--report", help="The report to write; else as the model, .html.")
    ] = None,
    features: o.Features = None,
    ignore: o.Ignore = None,
    weight: o.Weight = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    classes: o.Classes = None,
    format: o.FormatName = None,
    memory: o.Memory = None,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> Work:
    """From a table to a tested model: scaling, search, training, certificate, report."""
    from aesvm.command.fit import FitOptions
    from aesvm.command.fit import fit as run

    options = FitOptions(
        task=task,
        test_share=test,
        search_rows=search_rows,
        seed=seed,
        jobs=jobs,
        model=output,
        report=report,
    )
    columns = _columns(context)
    return partial(run, data, options, columns, Screen(json, quiet))


@app.command()
def info(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A model or data file.")],
    target: o.Target = None,
    ignore: o.Ignore = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    classes: o.Classes = None,
    format: o.FormatName = None,
    json: o.Json = False,
) -> Work:
    """Say what a model or data file holds."""
    from aesvm.command.info import info as run

    columns = _columns(context)
    return partial(run, file, columns, Screen(json))


@app.command()
def certify(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model file of aesvm's format, as train --native and fit write it.",
        ),
    ],
    data: o.Data,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Write the certified model here.")
    ] = None,
    target: o.Target = None,
    ignore: o.Ignore = None,
    weight: o.Weight = None,
    weights_file: o.WeightsFile = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    classes: o.Classes = None,
    format: o.FormatName = None,
    json: o.Json = False,
) -> Work:
    """Prove how close a model is to the exact SVM, from the rows that it was trained on."""
    from aesvm.command.certify import certify as run

    columns = _columns(context)
    return partial(run, model, data, output, columns, Screen(json))


@app.command()
def compress(
    context: typer.Context,
    model: o.ModelFile,
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="The model file to write.")],
    vectors: Annotated[
        int | None,
        typer.Option("--vectors", "--max-vectors", min=1, help="the most support vectors to keep"),
    ] = None,
    tol: o.Change = None,
    data: Annotated[
        str | None, typer.Option("--data", help="a data file to measure changes on")
    ] = None,
    native: o.Native = False,
    target: o.Target = None,
    ignore: o.Ignore = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    classes: o.Classes = None,
    format: o.FormatName = None,
    json: o.Json = False,
) -> Work:
    """Write a model on fewer of its support vectors, and say what that changes."""
    from aesvm.command.compress import compress as run

    columns = _columns(context)
    return partial(run, model, output, vectors, tol, data, native, columns, Screen(json))


@app.command()
def convert(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FILE", help="A model or data file.")],
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="The file to write.")],
    native: o.Native = False,
    target: o.Target = None,
    features: o.Features = None,
    ignore: o.Ignore = None,
    weight: o.Weight = None,
    weights_file: o.WeightsFile = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    classes: o.Classes = None,
    format: o.FormatName = None,
    json: o.Json = False,
) -> Work:
    """Write a model as LIBSVM's, .aesvm or ONNX, or a data file as LIBSVM's, CSV or Parquet."""
    from aesvm.command.convert import convert as run

    columns = _columns(context)
    return partial(run, source, _file(output), native, columns, Screen(json))


@app.command()
def represent(
    context: typer.Context,
    data: o.Data,
    output: o.Output = None,
    kernel: Annotated[str, typer.Option("--kernel", help="rbf, linear, poly or sigmoid")] = "rbf",
    gamma: o.Gamma = 0.0,
    hull_tol: o.HullTol = 1e-3,
    jobs: o.Jobs = None,
    target: o.Target = None,
    features: o.Features = None,
    ignore: o.Ignore = None,
    weight: o.Weight = None,
    weights_file: o.WeightsFile = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    classes: o.Classes = None,
    format: o.FormatName = None,
    memory: o.Memory = None,
    json: o.Json = False,
) -> Work:
    """Write a weighted subset of the rows that stands for all of them in kernel space."""
    from aesvm.command.represent import represent as run

    columns = _columns(context)
    return partial(run, data, _file(output), kernel, gamma, hull_tol, jobs, columns, Screen(json))
