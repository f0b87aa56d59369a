# SPDX-License-Identifier: Apache-2.0
"""A stage never includes a later one: the folders of daemon/ are the path of the data."""

import pathlib
import re
import unittest

DAEMON = pathlib.Path(__file__).resolve().parents[2] / "daemon"
STAGES = ["util", "model", "discover", "attach", "ingest", "aggregate", "symbolize", "store", "trace", "export", "ctl"]


class Layers(unittest.TestCase):
    def test_every_folder_has_its_place(self):
        self.assertEqual(sorted(path.name for path in DAEMON.iterdir() if path.is_dir()), sorted(STAGES))

    def test_a_stage_never_includes_a_later_one(self):
        upwards = []
        for source in sorted(DAEMON.glob("*/*.*")):
            for stage in re.findall(r'#include "daemon/(\w+)[/.]', source.read_text(encoding="utf-8")):
                # What lies in daemon/ itself ties the stages together, and comes last.
                if stage not in STAGES or STAGES.index(stage) > STAGES.index(source.parent.name):
                    upwards.append(f"{source.relative_to(DAEMON)} includes {stage}")
        self.assertEqual(upwards, [])


if __name__ == "__main__":
    unittest.main()
