# SPDX-License-Identifier: Apache-2.0
"""Programs that call Gc.Memprof.stop while memprofd samples them: they are told of, and sampled on."""

import harness
from harness import TARGETS, TARGETS5, E2ETest, eventually


class ProgramStops(E2ETest):
    def check(self, folder):
        target = self.target("stops_memprof", folder=folder)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)

        def samples_after_work():
            target.command("go 20000")
            return harness.sum_sites(daemon.sites(target.pid), "site_triple").get("samples", 0)

        def goes_on():
            before = samples_after_work()
            return before > 0 and samples_after_work() > before

        eventually(goes_on, "samples")
        for stops in (1, 2):
            self.assertEqual(0, target.command("stop")["failures"])
            eventually(lambda: target.command("go 20000") and self.stops(daemon, target) == stops, "the stop is told of")
            eventually(goes_on, "samples again")
            self.assertEqual("sampling", daemon.state(target.pid))
        target.exit()
        return daemon

    def stops(self, daemon, target):
        return sum(d["count"] for d in daemon.targets()[target.pid]["drops"] if d["reason"] == "stopped_by_program")

    def test_ocaml4(self):
        daemon = self.check(TARGETS)
        self.assertEqual(1, daemon.said().count("has called Gc.Memprof.stop; starting again"))

    def test_ocaml5(self):
        self.check(TARGETS5)


if __name__ == "__main__":
    import unittest
    unittest.main()
