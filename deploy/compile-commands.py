#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes compile_commands.json, on standard output, of the commands that make would run, on standard input."""

import json
import os
import shlex
import sys

# What only gcc and make want: clang cannot read gcc's precompiled headers.
DROPPED = {"-fpch-preprocess", "-MMD", "-MP"}


def entry(line):
    """The entry of one command, None when it compiles nothing."""
    words = shlex.split(line)
    if words and os.path.basename(words[0]) == "ccache":
        words = words[1:]
    if "-c" not in words or "-o" not in words:
        return None
    kept = []
    for word in words:
        if kept and kept[-1] == "-include" and word.endswith("pch.h"):
            kept.pop()
        elif word not in DROPPED:
            kept.append(word)
    return {"directory": os.getcwd(), "file": words[words.index("-c") + 1], "arguments": kept}


def main():
    commands = [line for line in sys.stdin if " -c " in line and " -o " in line]
    entries = [found for found in map(entry, commands) if found]
    json.dump(sorted(entries, key=lambda one: one["file"]), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
