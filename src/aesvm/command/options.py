"""Options that several commands have, as typer takes them."""

from __future__ import annotations

from typing import Annotated

import typer

_COLUMNS = "Columns of tables"
_LIBSVM = "LIBSVM's flags"
_OURS = "How it is trained"
_OUTPUT = "Output"


def _at_least_0(number: float) -> float:
    if not 0 <= number < float("inf"):
        raise typer.BadParameter(f"{number:g}: a number of at least 0 is needed.")
    return number


def _above_0(number: float | None) -> float | None:
    if number is not None and not 0 < number < float("inf"):
        raise typer.BadParameter(f"{number:g}: a number above 0 is needed.")
    return number


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A data file: LIBSVM's text, CSV, Parquet or .npy, by what it holds and its name; "
        "- is standard input.",
    ),
]
ModelFile = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model file, LIBSVM's or .aesvm.")
]

Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="The column to learn, by name or number from 0; else the one that is called target. "
        "Of .npy, also a file of its own.",
        rich_help_panel=_COLUMNS,
    ),
]
Features = Annotated[
    str | None,
    typer.Option("--features", help="Columns to learn from: a,b,c.", rich_help_panel=_COLUMNS),
]
Ignore = Annotated[
    str | None,
    typer.Option("--ignore", help="Columns to leave out: a,b,c.", rich_help_panel=_COLUMNS),
]
Weight = Annotated[
    str | None,
    typer.Option("--weight", help="The column of weights.", rich_help_panel=_COLUMNS),
]
WeightsFile = Annotated[
    str | None,
    typer.Option("-W", "--weights-file", help="A file with the weight of each row, one a line."),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a CSV names the columns; else it is looked at.",
        rich_help_panel=_COLUMNS,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", help="What is between fields of a CSV.", rich_help_panel=_COLUMNS),
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        help="What the target of a CSV holds: numbers or strings; else its first row tells.",
        rich_help_panel=_COLUMNS,
    ),
]
FormatName = Annotated[
    str | None,
    typer.Option("--format", help="libsvm, csv, parquet or npy.", rich_help_panel=_COLUMNS),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        help='Memory that rows may take, as "2 GiB"; larger data is streamed. Else a quarter of '
        "the machine's.",
    ),
]

SvmType = Annotated[
    int,
    typer.Option(
        "-s",
        metavar="TYPE",
        help="0 C-SVC, 1 nu-SVC, 2 one-class SVM, 3 epsilon-SVR, 4 nu-SVR",
        rich_help_panel=_LIBSVM,
    ),
]
KernelType = Annotated[
    int,
    typer.Option(
        "-t",
        metavar="KERNEL",
        help="0 linear u'v, 1 polynomial (gamma u'v + coef0)^degree, 2 RBF exp(-gamma |u-v|^2), "
        "3 sigmoid tanh(gamma u'v + coef0), 4 the kernel matrix in DATA",
        rich_help_panel=_LIBSVM,
    ),
]
Degree = Annotated[int, typer.Option("-d", help="degree", rich_help_panel=_LIBSVM)]
Gamma = Annotated[
    float,
    typer.Option(
        "-g",
        help="gamma; 0: 1 / number of features",
        rich_help_panel=_LIBSVM,
    ),
]
Coef0 = Annotated[float, typer.Option("-r", help="coef0", rich_help_panel=_LIBSVM)]
Cost = Annotated[float, typer.Option("-c", help="C of C-SVC and both SVR", rich_help_panel=_LIBSVM)]
Nu = Annotated[
    float,
    typer.Option("-n", help="nu of nu-SVC, one-class SVM and nu-SVR", rich_help_panel=_LIBSVM),
]
Epsilon = Annotated[
    float, typer.Option("-p", help="epsilon of epsilon-SVR", rich_help_panel=_LIBSVM)
]
Cache = Annotated[
    float, typer.Option("-m", help="cache of kernel rows, in MB", rich_help_panel=_LIBSVM)
]
Tolerance = Annotated[
    float, typer.Option("-e", help="tolerance for stopping", rich_help_panel=_LIBSVM)
]
Shrinking = Annotated[
    int, typer.Option("-h", help="whether to shrink, 0 or 1", rich_help_panel=_LIBSVM)
]
Probability = Annotated[
    int, typer.Option("-b", help="probabilities: 0, for there are none", rich_help_panel=_LIBSVM)
]
ClassWeight = Annotated[
    list[str] | None,
    typer.Option(
        "--class-weight",
        metavar="CLASS=WEIGHT",
        help="-wi weight: C of class i is weight times C",
        rich_help_panel=_LIBSVM,
    ),
]
Folds = Annotated[
    int | None,
    typer.Option("-v", metavar="N", help="N-fold cross-validation", rich_help_panel=_LIBSVM),
]
Quiet = Annotated[
    bool,
    typer.Option("-q", "--quiet", help="print warnings, errors and what was asked for alone"),
]

Refine = Annotated[
    str, typer.Option("--refine", help="auto, exact or a number of rounds", rich_help_panel=_OURS)
]
HullTol = Annotated[
    float,
    typer.Option(
        "--hull-tol",
        help="how far representatives may be from what they stand for",
        rich_help_panel=_OURS,
        callback=_at_least_0,
    ),
]
MaxVectors = Annotated[
    int | None,
    typer.Option("--max-vectors", min=1, help="the most support vectors", rich_help_panel=_OURS),
]


def _checked_jobs(jobs: int | None) -> int | None:
    if jobs == 0:
        raise typer.BadParameter("0: a number of threads, or -1, is needed.")
    return jobs


Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        help="threads; -1: all processors",
        rich_help_panel=_OURS,
        callback=_checked_jobs,
    ),
]
Native = Annotated[
    bool,
    typer.Option(
        "--native",
        help="write the model in aesvm's format, as names that end with .aesvm do",
        rich_help_panel=_OUTPUT,
    ),
]
Change = Annotated[
    float | None,
    typer.Option("--tol", help="the most that decision values may change by", callback=_above_0),
]
Output = Annotated[
    str | None,
    typer.Option("-o", "--output", help="the file to write", rich_help_panel=_OUTPUT),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="print one JSON object, for programs", rich_help_panel=_OUTPUT),
]


def listed(names: str | None) -> list[str] | None:
    """Names between commas."""
    return None if names is None else [one.strip() for one in names.split(",") if one.strip()]
