#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the manual pages: deploy/man-pages.py BUILD FOLDER. Their source is what --help prints."""

import pathlib
import re
import subprocess
import sys

from help_text import entries, help_of, parts

FILES = (("/etc/default/memprofd", "Options of the systemd unit, as MEMPROFD_OPTIONS."),
         ("/run/memprofd/memprofd.sock", "Where memprofd and memprofctl meet."),
         ("/var/lib/memprofd", "Targets and their history, as the unit keeps them (--state.directory)."))


def escaped(text):
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def listed(pairs):
    return [line for what, text in pairs for line in (".TP", rf"\fB{escaped(what)}\fR", escaped(text))]


def command_section(program, command):
    found = parts(help_of(program, *command))
    said = [line for line in found[""] if line.strip()]
    lines = [f'.SS "{escaped(" ".join(command))}"', escaped(said[0]), ".PP", escaped(said[1])]
    for heading in ("Positionals", "Options"):
        lines += listed(pair for pair in entries(found.get(heading, [])) if pair[0] != "-h,--help")
    if said[2:]:
        lines += [".PP", ".nf", *map(escaped, said[2:]), ".fi"]
    for name, _ in entries(found.get("Subcommands", [])):
        lines += command_section(program, [*command, name])
    return lines


def page(program, section, version):
    found = parts(help_of(program))
    said = [line for line in found[""] if line.strip()]
    name, what = said[0].split(": ", 1)
    usage = next(line for line in said if line.startswith("Usage: "))
    lines = [rf'.\" Made by deploy/man-pages.py of what {name} --help says.',
             f'.TH {name.upper()} {section} "" "{version}"', ".SH NAME", rf"{name} \- {escaped(what)}",
             ".SH SYNOPSIS", escaped(usage.removeprefix("Usage: "))]
    examples = [line for line in said[1:] if line != usage]
    if examples:
        lines += [".SH EXAMPLES", ".nf", *map(escaped, examples), ".fi"]
    lines += [".SH OPTIONS", *listed(entries(found["Options"]))]
    if "Subcommands" in found:
        lines.append(".SH COMMANDS")
        for command, _ in entries(found["Subcommands"]):
            lines += command_section(program, [command])
    lines += [".SH FILES", *listed(FILES), '.SH "EXIT STATUS"', escaped("\n".join(found["Exit codes"]).strip()),
              ".SH SEE ALSO", r"\fBmemprofctl\fR(1), \fBmemprofd\fR(8); the documents in share/doc/memprofd"]
    return "\n".join(lines) + "\n"


def main():
    build, folder = map(pathlib.Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    for name, section in (("memprofd", 8), ("memprofctl", 1)):
        version = subprocess.run([build / name, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        (folder / f"{name}.{section}").write_text(page(build / name, section, version))


if __name__ == "__main__":
    main()
