# SPDX-License-Identifier: Apache-2.0
"""Cost of probes at malloc and free: pairs of calls with and without probes, alternating in one process.

    /usr/bin/python3 tests/calls/c_probe_cost.py [ROUNDS]
"""

import pathlib
import statistics
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "kit"))
from harness import TARGETS, TARGETS5, E2ETest, eventually  # noqa: E402

ROUNDS = int(sys.argv.pop()) if len(sys.argv) > 1 and sys.argv[-1].isdigit() else 20
PAIRS = 20_000


class Cost(E2ETest):
    def turns(self, folder, interval):
        program = self.target("c_memory", folder=folder)
        memprofd = self.daemon("--mode", "observe", "--c-heap-interval", interval, "--c-heap-max-hits", 1_000_000)
        without, probed = [], []
        for told in range(ROUNDS):
            without.append(int(program.command(f"pairs {PAIRS}")))
            memprofd.ctl("attach", "--pid", program.pid)
            eventually(lambda told=told: memprofd.stderr().count("is followed by probes") > told, "it is followed")
            probed.append(int(program.command(f"pairs {PAIRS}")))
            memprofd.detach(program.pid)
        return without, probed

    def test_of_a_pair(self):
        for name, folder in (("4.13", TARGETS), ("5.3", TARGETS5)):
            for interval in ("512KiB", "1KiB"):
                without, probed = self.turns(folder, interval)
                differences = [b - a for a, b in zip(without, probed)]
                print(f"OCaml {name}, one sample in {interval}: a pair of malloc(64) and free takes {min(without)} ns, probed "
                      f"{min(probed)} at least, {statistics.median(differences):.0f} more in the median of {ROUNDS} rounds")


if __name__ == "__main__":
    unittest.main()
