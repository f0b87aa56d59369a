#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what bash completes: deploy/completions.py BUILD FOLDER. Its source is what --help prints.

The file of a program has its words in two tables: those that may follow a command, and what an option takes:

    WORDS["snapshot take"]='--pid --out --help'
    VALUES["snapshot take --pid"]=@targets      @ names a kind; anything else is the choice itself
"""

import pathlib
import re
import sys

from help_text import entries, help_of, parts

# What an option or an argument takes, by the word that its help has for it.
KINDS = {"FILE": "@files", "DIR": "@folders", "PATH": "@files", "PID": "@processes", "TARGET": "@targets",
         "BASE": "@targets", "OTHER": "@targets"}
OF_ANY_PROCESS = {"attach", "doctor", "rss"}  # the other commands are about targets that are there

SCRIPT = """# SPDX-License-Identifier: Apache-2.0
# Made by deploy/completions.py of what {program} --help says.

declare -gA {name}_WORDS=(
{words}
)
declare -gA {name}_VALUES=(
{values}
)

# KIND CURRENT: fills COMPREPLY with what begins as CURRENT does.
_{name}_values() {{
  local words=$1
  COMPREPLY=()
  case $1 in
    @nothing) return ;;
    @files) mapfile -t COMPREPLY < <(compgen -f -- "$2"); return ;;
    @folders) mapfile -t COMPREPLY < <(compgen -d -- "$2"); return ;;
    @processes) words=$(cd /proc && echo [0-9]*) ;;
    @targets) words=$(memprofctl targets 2> /dev/null | sed -n 's/^ *\\([0-9][0-9]*\\) .*/\\1/p') ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2")
  if [[ $1 == @targets ]]; then mapfile -t -O ${{#COMPREPLY[@]}} COMPREPLY < <(compgen -f -- "$2"); fi
}}

_{name}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command= word
  # The shell takes --option=value apart.
  if [[ $current == = ]]; then current=; elif [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    if [[ ${{{name}_WORDS["${{command:+$command }}$word"]+there}} ]]; then command=${{command:+$command }}$word; fi
  done
  local takes=${{{name}_VALUES["${{command:+$command }}$before"]-}}
  if [[ $before == -* && $takes ]]; then
    _{name}_values "$takes" "$current"
  elif [[ $current != -* && ${{{name}_VALUES["${{command:--}}"]-}} ]]; then
    _{name}_values "${{{name}_VALUES["${{command:--}}"]}}" "$current"
  else
    mapfile -t COMPREPLY < <(compgen -W "${{{name}_WORDS["${{command:--}}"]}}" -- "$current")
  fi
}}
complete -o filenames -F _{name} {program}
"""


def takes(command, what):
    """What comes after an option or stands as an argument; None of a switch."""
    _, _, value = what.partition(" ")
    choices = re.match(r"[A-Z]+:\{(.*?)\}", value)
    if choices:
        return choices[1].replace(",", " ")
    if re.search(r"(^|,)--?(pid|p)\b", what.split(" ")[0]) or what.startswith("pid "):
        return "@processes" if not command or command[0] in OF_ANY_PROCESS else "@targets"
    kind = re.match(r"[A-Z]+\b", value)
    return KINDS.get(kind[0], "@nothing") if kind else None


def collect(program, command, words, values):
    """Adds a command and those below it to the tables."""
    found = parts(help_of(program, *command))
    key = " ".join(command)
    options = [what for what, _ in entries(found["Options"])]
    below = [name for name, _ in entries(found.get("Subcommands", []))]
    words[key or "-"] = below + [name for what in options for name in what.split(" ")[0].split(",")
                                 if name.startswith("--")]
    for what in options:
        for name in what.split(" ")[0].split(","):
            if value := takes(command, what):
                values[f"{key} {name}".strip()] = value
    arguments = [takes(command, what) for what, _ in entries(found.get("Positionals", []))]
    if arguments and arguments[0] and not below:
        values[key or "-"] = arguments[0]
    for name in below:
        collect(program, [*command, name], words, values)


def script(program):
    words, values = {}, {}
    collect(program, [], words, values)
    return SCRIPT.format(program=program.name, name=program.name,
                         words="\n".join(f"  ['{key}']='{' '.join(names)}'" for key, names in words.items()),
                         values="\n".join(f"  ['{key}']='{value}'" for key, value in values.items()))


def main():
    build, folder = map(pathlib.Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("memprofd", "memprofctl"):
        (folder / name).write_text(script(build / name))


if __name__ == "__main__":
    main()
