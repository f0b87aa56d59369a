# SPDX-License-Identifier: Apache-2.0
"""Small programs that make readers large: memprofd's memory per target has a limit in bytes."""

import pathlib
import unittest

import bombs
import harness
from harness import eventually
from hostile_case import StoppedAtTheEnd, memory_bytes, stage

# kTargetBytes (daemon/util/byte_budget.h), and what every target needs: rings, tables of samples.
BUDGET = 256 << 20
ANYWAY = 64 << 20
# Addresses at which attacks of tests/hostile/attacks map files.
FILES, STEP, TABLE = 0x7d0000000000, 1 << 20, 0x7e0000000000


class Bombs(StoppedAtTheEnd):
    # Ended targets keep their data: kAllTargetsBytes.
    MAX_MEMORY_BYTES = (1 << 30) + StoppedAtTheEnd.MAX_MEMORY_BYTES

    def setUp(self):
        super().setUp()
        pathlib.Path(f"/proc/{self.memprofd.pid}/clear_refs").write_text("5")  # resets the peak
        self.before = memory_bytes(self.memprofd.pid)
        self.bombs = self.folder / "bombs"
        self.bombs.mkdir()
        self.bombs.chmod(0o755)

    def grown(self):
        return memory_bytes(self.memprofd.pid) - self.before

    def goes_off(self, attack, limit, program="steady"):
        """The program is sampled, and memprofd needs no more than the limit to find out about
        it."""
        target = self.guest(program, attack=attack)
        attach = self.attach_in_background(target.pid)
        self.assertEqual(harness.OK, self.assert_answered(attach))
        eventually(lambda: self.memprofd.state(target.pid) == "sampling", "the program is sampled")
        eventually(lambda: self.samples(target.pid) > 0, "its samples")
        harness.NOTES.append(f"{self.grown() >> 20} MB")
        self.assertLess(self.grown(), limit)
        drops = {(drop["stage"], drop["reason"]): drop["count"] for drop in self.memprofd.targets()[target.pid]["drops"]}
        self.let_go(target)
        self.assert_nothing_left(target)
        target.work_done()
        target.exit()
        self.assert_memprofd_is_well()
        return drops

    def test_files_of_millions_of_sections(self):
        for number, sections in enumerate((65_536, 4_000_000, 4_000_000, 80_000_000)):
            bombs.library_of_sections(self.bombs / str(number), sections)
        self.goes_off(f"map-all {self.bombs}", ANYWAY)

    def test_tables_of_a_gigabyte(self):
        for number in range(8):
            bombs.library_of_tables(self.bombs / str(number), bombs.GIB)
        drops = self.goes_off(f"map-all {self.bombs}", ANYWAY)
        self.assertGreater(drops["discover", "memory_full"], 0)
        said = [line for line in self.memprofd.said().splitlines() if "symbols are read" in line]
        self.assertEqual(1, len(said), said)

    def test_tables_that_just_fit(self):
        for number in range(3):
            bombs.library_of_tables(self.bombs / str(number), 150 << 20)
        self.goes_off(f"map-all {self.bombs}", BUDGET + ANYWAY)

    def test_plugins_of_millions_of_descriptors(self):
        for number in range(26):
            bombs.plugin(self.bombs / str(number), TABLE - (FILES + number * STEP))
        self.goes_off(f"frame-table {TABLE} 4000000;map-all {self.bombs} {FILES} {STEP}", BUDGET + ANYWAY)

    def test_one_plugin_mapped_2000_times(self):
        bombs.plugin(self.bombs / "0", TABLE - FILES)
        self.goes_off(f"frame-table {TABLE} 1000;map-file {self.bombs}/0 2000 {FILES}", ANYWAY)

    def test_names_of_megabytes(self):
        """Each frame of the working program has 256 inlined functions with names of 8 KB."""
        bombs.symbol_bomb(harness.TARGETS / "many_sites", self.bombs / "many_sites")
        target = self.guest("many_sites", folder=self.bombs)
        self.memprofd.attach(target.pid)
        eventually(lambda: target.command("go 1") and self.memprofd.state(target.pid) == "sampling", "it is sampled")
        target.command("go 20")
        eventually(lambda: self.samples(target.pid) > 4_000, "its samples")
        for question in ("sites", "report"):
            self.assertEqual(harness.OK, self.memprofd.ctl(question, "--pid", target.pid).returncode)
        drops = {drop["reason"]: drop["count"] for drop in self.memprofd.targets()[target.pid]["drops"]}
        self.assertGreater(drops["memory_full"], 1_000)
        harness.NOTES.append(f"{self.grown() >> 20} MB")
        self.assertLess(self.grown(), BUDGET + ANYWAY)
        self.let_go(target)
        self.assertEqual("done", target.command("full"))
        target.exit()
        self.assert_memprofd_is_well()


if __name__ == "__main__":
    unittest.main()
