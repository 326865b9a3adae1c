"""The front door of the command."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Union

import tyro

from orthoframe import __version__
from orthoframe.cli.certify import Certify
from orthoframe.cli.export import Export
from orthoframe.cli.measure import Measure
from orthoframe.cli.predict import Predict
from orthoframe.cli.report import Report
from orthoframe.cli.study import Study
from orthoframe.cli.train import Train, with_recipe
from orthoframe.cli.ufm import Ufm
from orthoframe.errors import InputError

_ABOUT = (
    "Supervised contrastive learning whose destination is known: the orthogonal frame. (--version tells the version.)"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; `arguments` are those after its name. Returns the exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        print(f"orthoframe {__version__}")
        return 0
    if not arguments:
        arguments = ["--help"]
    verbs = Union[  # noqa: UP007
        Annotated[Train, tyro.conf.subcommand("train", default=with_recipe(arguments))],
        Annotated[Predict, tyro.conf.subcommand("predict")],
        Annotated[Export, tyro.conf.subcommand("export")],
        Annotated[Report, tyro.conf.subcommand("report")],
        Annotated[Certify, tyro.conf.subcommand("certify")],
        Annotated[Measure, tyro.conf.subcommand("measure")],
        Annotated[Ufm, tyro.conf.subcommand("ufm")],
        Annotated[Study, tyro.conf.subcommand("study")],
    ]
    verb: Train | Predict | Export | Report | Certify | Measure | Ufm | Study = tyro.cli(
        verbs, prog="orthoframe", description=_ABOUT, args=arguments
    )
    try:
        return verb.run()
    except InputError as error:
        print(f"orthoframe: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("orthoframe: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read the output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except Exception as error:  # not a verdict, so not a status of 0 or 1
        print(f"orthoframe: unexpected {type(error).__name__}: {error}", file=sys.stderr)
        return 2
