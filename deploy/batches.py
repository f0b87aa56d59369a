#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Groups C++ sources into translation units, each of which pays for its headers once.

  deploy/batches.py [--tests] UNITS_FOLDER LINES SOURCE...

The sources of a folder become UNITS_FOLDER/folder/1.cc, 2.cc, ... of at most LINES lines each, in order
of their names; prints the paths of these units. A unit that is right already keeps its time stamp.
The names in unnamed namespaces must differ within a folder: the compiler says which do not. With
--tests a unit contains its sources as text, and the one unnamed namespace of each is named after its
file, so that the helpers of tests may have equal names.
"""

import pathlib
import sys

UNNAMED = "\nnamespace {\n"


def batches(sources, limit):
    """Lists of sources: (path, text) of one folder each, in order."""
    found, lines = [], 0
    for path in sorted(sources, key=lambda path: (path.parent, path.name)):
        text = path.read_text()
        length = text.count("\n")
        if not found or found[-1][0][0].parent != path.parent or lines + length > limit:
            found.append([])
            lines = 0
        found[-1].append((path, text))
        lines += length
    return found


def included(batch):
    return "".join(f'#include "{path}"\n' for path, _ in batch)


def named(batch):
    """The text of test files, with #line for the compiler's messages."""
    pieces = []
    for path, text in batch:
        if text.count(UNNAMED) != 1:
            sys.exit(f"batches: {path} needs exactly one unnamed namespace, which contains all its tests")
        pieces.append(f'#line 1 "{path}"\n' + text.replace(UNNAMED, f"\nnamespace {path.stem} {{\n"))
    return "".join(pieces)


def main(arguments):
    unit_text = named if arguments[0] == "--tests" else included
    folder, limit, *sources = arguments[arguments[0] == "--tests":]
    numbers = {}
    for batch in batches(map(pathlib.Path, sources), int(limit)):
        room = batch[0][0].parent
        numbers[room] = numbers.get(room, 0) + 1
        unit = pathlib.Path(folder) / room / f"{numbers[room]}.cc"
        text = unit_text(batch)
        if not unit.exists() or unit.read_text() != text:
            unit.parent.mkdir(parents=True, exist_ok=True)
            unit.write_text(text)
        print(unit)


if __name__ == "__main__":
    main(sys.argv[1:])
