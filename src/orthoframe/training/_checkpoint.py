"""The state of a run on disk: whole, checked, and never the only one."""

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import torch

from orthoframe._atomic import write_atomic
from orthoframe.errors import TrainingError

NAME, PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint, and keep the one before it.

    A process that is killed on the way leaves the old one, the new one, or the old one under the name of the previous.

    Raises:
        OSError: If it cannot be written; the last good one is left.
    """
    buffer = io.BytesIO()
    torch.save(state, buffer)
    fresh = folder / ".checkpoint.new.pt"
    write_atomic(fresh, lambda file: file.write(buffer.getbuffer()))
    if (folder / NAME).exists():
        os.replace(folder / NAME, folder / PREVIOUS)
    os.replace(fresh, folder / NAME)


def load_checkpoint(folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """The newest checkpoint that is whole.

    Returns:
        The state, None if the run was killed before its first; and a sentence for each broken one that was passed over.

    Raises:
        TrainingError: If there are checkpoints and none is whole.
    """
    complaints: list[str] = []
    for name in (NAME, PREVIOUS):
        path = folder / name
        if not path.exists():
            continue
        try:
            return _read(path), complaints
        except Exception as error:  # a broken file can fail in any way
            complaints.append(f"{path} is broken ({type(error).__name__}: {str(error).splitlines()[0][:120]})")
    if complaints:
        raise TrainingError("; ".join(complaints) + ": there is nothing to go on from, start the run anew")
    return None, complaints


def drop_broken(folder: Path) -> None:
    """Put the previous checkpoint in the place of the newest, which is broken; the next save would lose it otherwise.

    To be called by one process, when all have loaded.
    """
    os.replace(folder / PREVIOUS, folder / NAME)


def _read(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:  # torch reads past a changed byte, and this does not
        damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"the checksum of {damaged} is wrong")
    state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict) or "state" not in state:
        raise ValueError("it is not the state of a run")
    return state
