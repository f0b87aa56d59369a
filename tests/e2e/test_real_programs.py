"""Unmodified programs from Debian: stripped, threaded, with their own workloads."""

import unittest

import harness
from harness import E2ETest, eventually
from real_programs import Ocamlopt, Ocsigenserver, Wrk


class RealPrograms(E2ETest):
    def check_sites(self, daemon, pid, *modules):
        """Sites that make sense: known functions, whole callstacks, hardly any loss."""
        sites = daemon.sites(pid)
        functions = [frame["function"] for site in sites for frame in site["callstack"]]
        for module in modules:
            self.assertTrue([f for f in functions if module in f], f"no function of {module}")
        samples = sum(site["samples"] for site in sites)
        unknown = sum(site["samples"] for site in sites if site["function"] in ("", "(unknown)"))
        self.assertLessEqual(unknown, 0.005 * samples)
        self.assertLessEqual(daemon.targets()[pid]["dropped_events"], 0.005 * samples)

    def wait_samples(self, daemon, pid, count):
        return eventually(
            lambda: daemon.metrics().total("memprofd_samples_total", pid=pid, event="alloc") >= count,
            f"{count} samples of pid {pid}", timeout=60)

    def test_ocsigenserver_under_load(self):
        server = self.process(Ocsigenserver(self.folder))
        load = self.process(Wrk(server.url))
        daemon = self.daemon("--pid", server.pid, rate=1e-4)
        daemon.wait_state(server.pid, "sampling")
        self.wait_samples(daemon, server.pid, 3_000)
        self.check_sites(daemon, server.pid, "Cohttp", "Ocsigen", "Lwt")
        self.assertEqual(harness.OK, daemon.stop())
        counts = load.finish()
        self.assertGreater(counts["requests"], 0)
        self.assertEqual((0, ""), (counts["bad_answers"], counts["socket_errors"]))

    def test_ocamlopt(self):
        compiler = self.process(Ocamlopt(self.folder))
        daemon = self.daemon("--pid", compiler.pid, rate=1e-5)
        daemon.wait_state(compiler.pid, "sampling")
        self.wait_samples(daemon, compiler.pid, 1_000)
        self.check_sites(daemon, compiler.pid, "Typecore", "Ctype")
        daemon.detach(compiler.pid)
        self.assertEqual(0, compiler.wait(timeout=300), compiler.stderr())
        self.assertTrue((self.folder / "generated.o").exists())


if __name__ == "__main__":
    unittest.main()
