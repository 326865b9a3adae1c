"""The command `orthoframe`: one file for each verb."""

from orthoframe.cli._main import main

__all__ = ["main"]
