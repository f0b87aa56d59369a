# SPDX-License-Identifier: Apache-2.0
"""Sections as tables for terminals and in Markdown, one table per quantity."""

from spread import shown


def tables(measures):
    """[(heading, header, rows)] of text, in the order in which quantities, rows and columns were added."""
    return [_table(group) for group in grouped(measures, lambda measure: measure.what).values()]


def grouped(items, key):
    groups = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _table(measures):
    unit = measures[0].unit
    heading = measures[0].what + (f", {unit}" if unit else "")
    columns = list(dict.fromkeys(measure.column for measure in measures))
    rows = [[row, *_cells(cells, columns)] for row, cells in grouped(measures, lambda m: m.row).items()]
    return heading, ["", *columns], rows


def _cells(measures, columns):
    of_column = {measure.column: measure for measure in measures}
    return [cell(of_column[column]) if column in of_column else "" for column in columns]


def cell(measure):
    goal = f" (goal {measure.at_most:g}{'' if measure.met() else ', missed'})" if measure.at_most is not None else ""
    return shown(measure.values) + goal


def as_text(header, rows):
    lines = [header, *rows] if any(header) else rows
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip()
                     for line in lines)


def as_markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)


def section_text(section):
    """The text of a section for the terminal, without its title."""
    parts = [f"  {heading}\n{as_text(header, rows)}" for heading, header, rows in tables(section.measures)]
    return "\n".join(parts + [f"  {note}" for note in _notes(section)])


def section_markdown(section):
    parts = [f"### {section.name}\n\n{section.title}"]
    parts += [f"**{heading}**\n\n{as_markdown(header, rows)}" for heading, header, rows in tables(section.measures)]
    parts += [f"- {note}" for note in _notes(section)]
    return "\n\n".join(parts)


def _notes(section):
    return section.notes + ([f"failed: {section.failed}"] if section.failed else [])
