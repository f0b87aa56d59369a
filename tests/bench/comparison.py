# SPDX-License-Identifier: Apache-2.0
"""Compares the results of a base and of this tree, as ratios within each round."""

import dataclasses
import statistics

from spread import by_chance, ratios, shown, significant, spread

BY_CHANCE = 0.05  # highest p-value of a change; requires 6 rounds that agree, or 8 of 9


@dataclasses.dataclass(frozen=True)
class Change:
    """One quantity, with a value of both sides for each round."""
    what: str
    unit: str
    row: str
    column: str
    base: tuple
    here: tuple

    def ratios(self):
        return ratios(self.here, self.base)

    def verdict(self):
        """"more" or "less" if the rounds agree significantly; else empty."""
        found = self.ratios()
        if not found or by_chance(found) > BY_CHANCE:
            return ""
        return "more" if statistics.median(found) > 1 else "less"

    def cells(self):
        place = ", ".join(filter(None, [self.row, self.column]))
        median_base, median_here = (significant(statistics.median(side)) for side in (self.base, self.here))
        found = self.ratios()
        return [place, median_base, median_here, shown(found) if found else "-", self.verdict()]

    def to_json(self):
        found = self.ratios()
        return {**dataclasses.asdict(self), "ratios": found, "spread": spread(found) if found else None}


HEADER = ["", "base", "here", "here / base", ""]


def _medians(result):
    """{section: {key of a measure: (measure, its median)}}"""
    return {section.name: {measure.key(): (measure, statistics.median(measure.values)) for measure in section.measures}
            for section in result.sections}


def changes(rounds):
    """{section: [Change]} of [(base, here)]; rounds in which one side lacks a quantity do not count for it."""
    sides = [(_medians(base), _medians(here)) for base, here in rounds]
    found = {}
    for section in dict.fromkeys(name for _, here in sides for name in here):
        keys = dict.fromkeys(key for _, here in sides for key in here.get(section, {}))
        found[section] = [change for change in (_change(sides, section, key) for key in keys) if change]
    return found


def _change(sides, section, key):
    pairs = [(base[section][key], here[section][key]) for base, here in sides
             if key in base.get(section, {}) and key in here.get(section, {})]
    if not pairs:
        return None
    measure = pairs[0][1][0]
    base, here = (tuple(pair[side][1] for pair in pairs) for side in (0, 1))
    return Change(measure.what, measure.unit, measure.row, measure.column, base, here)
