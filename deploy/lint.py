#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on the files of a folder: deploy/lint.py FILE... -- FLAGS OF THE COMPILER.

Nearly all of its time goes into headers, so files are checked together as one translation unit. Those
that give the same name to things of their own (in their unnamed namespaces) cannot stand in one unit:
each goes into the first unit that has none of its names.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# A definition in the first column; what follows its name tells it from its type.
DEFINED = re.compile(r"^(?=\w)(?:[\w:<>,&* ]+[ &*>])??(\w+)(?=\(| ?\{| ?=|\[| :)", re.M)
ALIAS = re.compile(r"^(?:namespace|using) (\w+) = .*", re.M)


def names_of(path):
    """{name: what it is} of what a file gives a name of its own; an alias may stand in a unit twice."""
    text = pathlib.Path(path).read_text()
    unnamed = "\n".join(re.findall(r"^namespace \{$(.*?)^\}  // namespace$", text, re.M | re.S))
    return {name: path for name in DEFINED.findall(unnamed)} | {alias[1]: alias[0] for alias in ALIAS.finditer(text)}


def units_of(paths):
    """Lists of files that can stand in one translation unit."""
    units = []
    for path in paths:
        names = names_of(path)
        for files, taken in units:
            if all(taken.get(name, what) == what for name, what in names.items()):
                break
        else:
            files, taken = [], {}
            units.append((files, taken))
        files.append(path)
        taken.update(names)
    return [files for files, _ in units]


def check(paths, flags):
    """Prints what clang-tidy says of one unit, with the places as they are in the files."""
    unit, lines = "", []  # lines: of the unit, where each comes from
    for path in paths:
        text = pathlib.Path(path).read_text()
        unit += text
        lines += [f"{path}:{number}" for number, _ in enumerate(text.splitlines(), 1)]
    with tempfile.NamedTemporaryFile("w", suffix=".cc", dir=".", prefix=".lint_") as file:
        file.write(unit)
        file.flush()
        tidy = subprocess.run(["clang-tidy", "--quiet", file.name, "--", *flags], capture_output=True, text=True, check=False)
        sys.stdout.write(re.sub(re.escape(file.name) + r":(\d+)", lambda at: lines[int(at[1]) - 1], tidy.stdout))
        return tidy.returncode


def main():
    split = sys.argv.index("--")
    paths, flags = sys.argv[1:split], sys.argv[split + 1:]
    return max([check(unit, flags) for unit in units_of(paths)])


if __name__ == "__main__":
    sys.exit(main())
