# SPDX-License-Identifier: Apache-2.0
"""Reads what memprofd --help and memprofctl --help-all print, which manual pages and completions are made of."""

import pathlib
import re
import subprocess

COLUMN = 30  # where texts of options begin, or on the next line, where a name is longer


def help_of(program, *command):
    is_short = pathlib.Path(program).name == "memprofctl" and not command
    done = subprocess.run([program, *command, "--help-all" if is_short else "--help"], capture_output=True, text=True, check=True,
                          env={"TERM": "dumb", "COLUMNS": "80"})
    return done.stdout


def parts(text):
    """{heading: its lines} of a help text, up to an empty one; text of no heading is under ""."""
    found, heading = {"": []}, ""
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z]\w+:", line):
            heading = line[:-1]
            found[heading] = []
        elif line.startswith("Exit codes:"):
            heading = "Exit codes"
            found[heading] = [line.removeprefix("Exit codes:").strip()]
        elif line or heading == "Exit codes":
            found[heading].append(line)
        elif found[heading]:
            heading = ""
    return found


def entries(lines):
    """(what, text) of options or commands; a text goes on in lines that begin further to the right."""
    found = []
    for line, following in zip(lines, [*lines[1:], ""]):
        if not line.strip():
            continue
        if line.startswith("   "):
            found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
        elif following.startswith(" " * COLUMN):
            found.append([line.strip(), ""])
        else:
            found.append([line[:COLUMN].strip(), line[COLUMN:].strip()])
    return found
