# SPDX-License-Identifier: Apache-2.0
"""Results of a benchmark: measures in sections, stored as a JSON file, which BENCHMARKS.md describes."""

import dataclasses
import json
import pathlib

from spread import spread

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Measure:
    """Values of one quantity, one per round. Row and column are its place in the table of `what`."""
    what: str
    unit: str
    values: tuple
    row: str = ""
    column: str = ""
    at_most: float | None = None  # the goal

    def key(self):
        return self.what, self.row, self.column

    def met(self):
        return self.at_most is None or spread(self.values)["median"] <= self.at_most

    def to_json(self):
        return {**dataclasses.asdict(self), "values": list(self.values), "spread": spread(self.values)}

    @staticmethod
    def of_json(given):
        fields = {field.name: given[field.name] for field in dataclasses.fields(Measure)}
        return Measure(**{**fields, "values": tuple(fields["values"])})


@dataclasses.dataclass
class Section:
    name: str
    title: str
    measures: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)  # skipped parts with reasons, and losses
    failed: str = ""
    details: dict = dataclasses.field(default_factory=dict)  # only in the JSON file

    def add(self, what, unit, values, row="", column="", at_most=None):
        """Adds a measure if there are values."""
        values = tuple(values)
        if values:
            self.measures.append(Measure(what, unit, values, row, column, at_most))

    def to_json(self):
        return {**vars(self), "measures": [measure.to_json() for measure in self.measures]}

    @staticmethod
    def of_json(given):
        return Section(**{**given, "measures": [Measure.of_json(measure) for measure in given["measures"]]})


@dataclasses.dataclass
class Result:
    about: dict  # machine.about()
    sections: list = dataclasses.field(default_factory=list)

    def save(self, path):
        document = {"format": FORMAT, "about": self.about,
                    "sections": [section.to_json() for section in self.sections]}
        pathlib.Path(path).write_text(json.dumps(document, indent=1) + "\n")

    @staticmethod
    def load(path):
        document = json.loads(pathlib.Path(path).read_text())
        if document.get("format") != FORMAT:
            raise ValueError(f"{path}: format {document.get('format')}, not {FORMAT}: run make bench again")
        return Result(document["about"], [Section.of_json(section) for section in document["sections"]])
