#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test files as one translation unit, which compiles what they share once: tests/kit/unity.py FILE... > ALL.cc

The unnamed namespace of each file gets the file's name, so that their helpers may be called alike.
"""

import pathlib
import sys

UNNAMED = "\nnamespace {\n"


def main():
    for path in map(pathlib.Path, sys.argv[1:]):
        text = path.read_text()
        if text.count(UNNAMED) != 1:
            sys.exit(f"{path}: all of a unit test stands in one unnamed namespace")
        print(f'#line 1 "{path}"')
        print(text.replace(UNNAMED, f"\nnamespace {path.stem} {{\n"), end="")


if __name__ == "__main__":
    main()
