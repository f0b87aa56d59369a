#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints unit tests with names like the given one: tests/kit/unit_names.py NAME FILE_test.cc..."""

import difflib
import pathlib
import sys


def near(name, names):
    """Names that contain the given one, then similar ones; at most eight."""
    contains = [one for one in names if name and name in one]
    alike = difflib.get_close_matches(name, names, n=8, cutoff=0.5)
    return list(dict.fromkeys(contains + alike))[:8]


def message(name, files):
    if not name:
        return "make unit: name a test, such as make unit UNIT=pairing"
    names = sorted(pathlib.Path(file).stem.removesuffix("_test") for file in files)
    found = near(name, names)
    hint = f"did you mean {', '.join(found)}?" if found else f"there are {len(names)}, below tests/unit and tests/plain"
    return f"make unit: no unit test is called {name}; {hint}"


if __name__ == "__main__":
    print(message(sys.argv[1], sys.argv[2:]))
