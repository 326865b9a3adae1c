"""How a good input becomes a hostile one. Everything is drawn from the generator of the case."""

import copy
import io
import json
import marshal
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Target(NamedTuple):
    """Something that reads hostile inputs."""

    refusals: tuple[type[Exception], ...]  # the errors that are documented
    weight: float  # its share of all cases
    prepare: Callable[..., Any]  # (folder): the valid inputs
    make: Callable[..., Any]  # (random, valid, folder): a hostile input
    read: Callable[..., object]  # (input): reads it, and asserts that the result is right
    numbered: bool = False  # whether `make` gets the number of the case instead of a generator


NUMBERS = (0, 1, 2, 3, 7, 127, 128, 255, 256, 65535, 65536, 10**8, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1)
"""What a field of a header may be made to say."""

_NESTED = "three thousand brackets"
VALUES = (
    *(None, True, False, "", "x", "é\n\x00", "x" * 2000, [], {}, [[]], [None], {"x": 1}, _NESTED),
    *(0, 1, -1, 2, 3.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), 10**4, 10**8, 2**31, 2**63, 2**64, 10**400),
    *([30000, 30000], [-1, 4], ["relu", "mlp"], [0] * 50, "<U500000000", "mlp", "resnet18", "gelu", "16-mixed"),
)
"""What an entry of a JSON document may be replaced with."""


def choice(random, options):
    """One of the options, as it is: numpy would turn it into an array."""
    return options[int(random.integers(len(options)))]


def mutated(random, data, other=b""):
    """Bytes after one to four accidents; `other` is a file of the same kind to splice with."""
    data = bytearray(data)
    for _ in range(int(random.integers(1, 5))):
        data = choice(random, _ACCIDENTS)(random, data, other)
    return bytes(data)


def _place(random, data):
    """Anywhere; as often as not among the first 64 bytes, where headers are."""
    most = min(len(data), 64) if random.random() < 0.5 else len(data)
    return int(random.integers(most + 1))


def _flip(random, data, _):
    place = _place(random, data)
    if place < len(data):
        data[place] ^= 1 << int(random.integers(8))
    return data


def _overwrite(random, data, _):
    place = _place(random, data)
    data[place : place + 1] = bytes([choice(random, (0, 1, 0x20, 0x7F, 0x80, 0xFF, int(random.integers(256))))])
    return data


def _field(random, data, _):
    place, form = _place(random, data), choice(random, ("<H", ">H", "<I", ">I", "<Q", ">Q"))
    size = struct.calcsize(form)
    data[place : place + size] = struct.pack(form, choice(random, NUMBERS) % 256**size)
    return data


def _cut(random, data, _):
    return data[: _place(random, data)]


def _remove(random, data, _):
    place = _place(random, data)
    del data[place : place + int(random.integers(1, 20))]
    return data


def _repeat(random, data, _):
    place = _place(random, data)
    part = data[place : place + int(random.integers(1, 40))]
    data[place:place] = part * int(random.integers(1, 4))
    return data


def _insert(random, data, _):
    place = _place(random, data)
    data[place:place] = random.bytes(int(random.integers(1, 20)))
    return data


def _splice(random, data, other):
    return data[: _place(random, data)] + other[_place(random, other) :]


_ACCIDENTS = (_flip, _flip, _overwrite, _field, _field, _cut, _remove, _repeat, _insert, _splice)


def mutated_json(random, value):
    """The text of a JSON document in which one to three entries are replaced, removed, repeated or renamed."""
    value = marshal.loads(marshal.dumps(value))  # a copy, ten times as fast as deepcopy
    for _ in range(int(random.integers(1, 4))):
        value = _json_accident(random, value)
    return json.dumps(value).replace(f'"{_NESTED}"', "[" * 3000 + "]" * 3000)


def _json_accident(random, value):
    if not isinstance(value, dict | list) or not value or random.random() < 0.02:
        return copy.deepcopy(choice(random, VALUES))
    name = choice(random, list(value) if isinstance(value, dict) else range(len(value)))
    kind = random.random()
    if isinstance(value[name], dict | list) and value[name] and kind < 0.8:
        value[name] = _json_accident(random, value[name])
    elif kind < 0.85:
        value[name] = _replacement(random, value[name])
    elif kind < 0.92:
        del value[name]
    elif isinstance(value, list):
        value.insert(name, value[name])
    else:
        value[choice(random, ("x", name + "s", name.upper(), ""))] = value.pop(name)
    return value


def _replacement(random, value):
    """A near miss half of the time, because readers look at types first."""
    near = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**64
    if not near or random.random() < 0.5:
        return copy.deepcopy(choice(random, VALUES))
    return choice(random, (-value, value + 1, value - 1, value * 1000, value / 3, float(value), str(value)))


def npy(random, array):
    """A `.npy` file whose header may lie about the array."""
    descr = np.lib.format.dtype_to_descr(array.dtype)
    fields = {"descr": repr(descr), "fortran_order": "False", "shape": repr(array.shape)}
    for _ in range(int(random.integers(0, 3))):
        name = choice(random, list(fields))
        fields[name] = choice(random, _HEADER[name])
    if random.random() < 0.1:
        fields.pop(choice(random, list(fields)))
    text = "{" + ", ".join(f"{name!r}: {value}" for name, value in fields.items()) + "}"
    if random.random() < 0.15:
        text = mutated(random, text.encode()).decode("latin1")
    head = text.encode("latin1", "replace")
    version = choice(random, ((1, 0), (1, 0), (1, 0), (2, 0), (3, 0), (0, 0), (9, 9)))
    form = "<H" if version[0] < 2 else "<I"
    length = len(head) + 1 if random.random() < 0.95 else choice(random, NUMBERS)
    length %= 256 ** struct.calcsize(form)
    return b"\x93NUMPY" + bytes(version) + struct.pack(form, length) + head + b"\n" + array.tobytes()


_HEADER = {
    "descr": (
        *("'<U500000000'", "'|O'", "'<f8'", "'>f4'", "'|u1'", "'<i8'", "'<M8[s]'", "'|V0'", "'|S0'", "'<U0'", "'<c16'"),
        *("[('a', '<f8')]", "[('a', '|O')]", "'nonsense'", "''", "None", "7", "('<f8', (10000, 10000))", "'f8,' * 9"),
        *("{'names': ['a'], 'formats': ['<f8'], 'offsets': [-8]}", "'|b1'", "'<f2'", "'<g16'", "'=f4'"),
    ),
    "fortran_order": ("True", "0", "None", "'x'"),
    "shape": (
        *("(-1,)", "(-1, 4)", "(4, -2)", "()", "(0,)", "(0, 0)", "(1000000000000,)", "(4611686018427387904, 2)", "[4]"),
        *("(9223372036854775808,)", "('a',)", "(2.5,)", "None", "4", "(3, 4, 5)", "(True, 4)", "(((),),)"),
        "(" * 300,
        *("(1,) * 40", "(" + "1," * 70 + ")", "(0, 9223372036854775807)", "(1_000,)", "(4,) + (4,)"),
    ),
}


def npz(random, arrays):
    """An `.npz` file of members that may lie, with names that may be wrong."""
    file = io.BytesIO()
    kind = choice(random, (zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    broken = choice(random, [*arrays, None])
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, array in arrays.items():
            member = f"{name}.npy"
            if name == broken and random.random() < 0.2:
                member = choice(random, (name, f"{name}.NPY", name.upper() + ".npy", f"../{member}", f"{name}.npy/"))
            content = npy(random, array) if name == broken else _plain(array)
            if name == broken and random.random() < 0.2:
                content = mutated(random, content)
            archive.writestr(member, content)
    return file.getvalue()


def _plain(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def safetensors(random, data, metadata=None):
    """A safetensors file with a changed header, or with changed JSON in the entry `metadata` of its metadata."""
    length = int.from_bytes(data[:8], "little")
    head, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    if metadata is not None and random.random() < 0.8:
        about = json.loads(head["__metadata__"][metadata])
        head["__metadata__"][metadata] = mutated_json(random, about)
        text = json.dumps(head)
    else:
        text = mutated_json(random, head)
    return struct.pack("<Q", len(text.encode())) + text.encode() + body


def png(random, data):
    """A PNG image with another header, whose checksum is right."""
    sizes = (4, 4, 4, 1, 5, 12000, 20000, 2**31 - 1)
    width, height = choice(random, sizes), choice(random, sizes)
    depth, colour = choice(random, ((8, 0), (8, 2), (8, 3), (16, 0), (1, 0), (8, 6), (8, 4), (7, 9)))
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]
