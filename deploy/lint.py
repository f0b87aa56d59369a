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


def names_of(path):
    """{name: what it is} of what a file gives a name of its own; an alias may stand in a unit twice."""
    text = pathlib.Path(path).read_text()
    unnamed = "\n".join(re.findall(r"^namespace \{$(.*?)^\}  // namespace$", text, re.M | re.S))
    aliases = re.findall(r"^((?:namespace|using) (\w+) = .*)", text, re.M)
    return {name: path for name in DEFINED.findall(unnamed)} | {name: line for line, name in aliases}


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
    with tempfile.NamedTemporaryFile("w", suffix=".cc", dir=".", prefix=".lint_") as file:
        for path in paths:
            # The line makes messages name the file, and clang-tidy take it for the main one.
            file.write(f'#line 1 "{path}"\n{pathlib.Path(path).read_text()}')
        file.flush()
        tidy = subprocess.run(["clang-tidy", "--quiet", file.name, "--", *flags], capture_output=True, text=True, check=False)
        sys.stdout.write(tidy.stdout)
        sys.stderr.write("" if tidy.returncode == 0 else tidy.stderr)
        return tidy.returncode


def main():
    split = sys.argv.index("--")
    paths, flags = sys.argv[1:split], sys.argv[split + 1:]
    return max(check(unit, flags) for unit in units_of(paths))


if __name__ == "__main__":
    sys.exit(main())
