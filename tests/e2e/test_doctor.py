# SPDX-License-Identifier: Apache-2.0
"""memprofctl doctor reports its findings about a program, with a remedy for each problem."""

import os
import subprocess
import unittest

import answers
import harness
from harness import E2ETest, NOT_PROFILABLE, OK, UNAVAILABLE, Process, eventually, proc_status


class Doctor(E2ETest):
    def setUp(self):
        super().setUp()
        self.memprofd = self.daemon()

    def findings(self, pid, code=OK):
        """(level, detail, remedy) by subject."""
        done = self.memprofd.ctl("doctor", "--pid", pid, "-o", "json", check=False)
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        found = answers.answer(done.stdout)["findings"]
        for finding in found:
            self.assertNotIn("\n", finding["detail"])
        return {f["subject"]: (f["level"], f["detail"], f.get("remedy", "")) for f in found}

    def problem(self, pid, subject, detail, remedy):
        findings = self.findings(pid, NOT_PROFILABLE)
        self.assertIn(subject, findings)
        self.assertEqual("problem", findings[subject][0], findings)
        self.assertIn(detail.lower(), findings[subject][1].lower())
        self.assertIn(remedy.lower(), (findings[subject][1] + " " + findings[subject][2]).lower())
        return findings

    def test_a_good_program(self):
        target = self.target("busy_threads")
        findings = self.findings(target.pid)
        self.assertEqual({"ok"}, {level for level, _, _ in findings.values()}, findings)
        for subject, words in (("target", "OCaml"), ("symbols", " of the runtime's found"), ("mode", "by injection"),
                               ("capture probe", "emulated"), ("safe point probe", "on `"), ("batch probe", "a batch of samples, measured here"),
                               ("frame tables", "in the kernel"), ("namespaces", "those of memprofd"),
                               ("C library", "GNU"), ("seccomp", "no filter"), ("stack limit", "MiB"),
                               ("kernel lockdown", ""), ("privilege to look into targets", "held")):
            self.assertIn(words, findings[subject][1], subject)

    def test_the_kernel_is_told_of_without_memprofd(self):
        done = harness.memprofctl("--grpc.socket", self.folder / "none.sock", "doctor", "-o", "json", check=False)
        self.assertEqual(UNAVAILABLE, done.returncode, done.stderr)
        here = {f["subject"]: f for f in answers.answer(done.stdout)["findings"]}
        asked = self.memprofd.ctl("doctor", "-o", "json").stdout
        same = [f for f in answers.answer(asked)["findings"] if f["subject"] != "agent" and "privilege" not in f["subject"]]
        self.assertGreater(len(same), 5)
        self.assertEqual(same, [here[f["subject"]] for f in same])
        self.assertEqual(f"Linux {os.uname().release}", here["kernel"]["detail"])
        self.assertEqual(("problem", "ok"), (here["daemon"]["level"], here["privileges"]["level"]))

    def test_it_is_not_disturbed(self):
        target = self.target("busy_threads")
        self.findings(target.pid)
        self.assert_works_on(target)
        self.assertEqual(0, target.exit()["errors"])

    def test_an_agent_that_is_there(self):
        env = dict(os.environ, LD_PRELOAD=str(harness.BUILD / "libmemprof_agent.so"))
        target = self.target("busy_threads", env=env)
        self.assertIn("already loaded", self.findings(target.pid)["mode"][1])

    def test_bytecode(self):
        self.problem(self.target("bytecode_target").pid, "target", "bytecode", "ocamlopt")

    def test_stripped_static(self):
        findings = self.problem(self.target("static_target").pid, "target", "stripped", "keep its symbol table")
        self.assertIn("static", findings["C library"][1])

    def test_not_ocaml(self):
        sleeper = self.process(Process(["sleep", "600"]))
        findings = self.problem(sleeper.pid, "target", "not an OCaml program", "caml_frametable")
        self.assertNotIn("symbols", findings)

    def test_thread_id(self):
        target = self.target("busy_threads")
        thread = max(int(tid) for tid in os.listdir(f"/proc/{target.pid}/task"))
        self.problem(thread, "target", f"thread of process {target.pid}", f"use pid {target.pid}")

    def test_no_such_process(self):
        child = subprocess.Popen(["true"])
        child.wait()
        self.problem(child.pid, "target", "no process", "pgrep")

    def test_traced(self):
        target = self.target("busy_threads")
        gdb = self.process(Process(["gdb", "-q", "-nx", "-p", str(target.pid)]))
        eventually(lambda: proc_status(target.pid, "TracerPid") == str(gdb.pid), "gdb traces the target")
        findings = self.problem(target.pid, "tracer", str(gdb.pid), "detach")
        self.assertEqual("problem", findings["mode"][0])
        self.assertIn("tracer forbids", findings["mode"][1])

    def test_seccomp(self):
        target = self.process(Process(["python3", "-c", harness.UNDER_A_FILTER, harness.TARGETS / "idle"]))
        self.assertTrue(target.read_line().startswith("ready"))
        self.assertEqual("2", proc_status(target.pid, "Seccomp"))
        findings = self.findings(target.pid)
        self.assertEqual("ok", findings["seccomp"][0], findings)
        self.assertIn("checks before", findings["seccomp"][1])
        self.memprofd = self.daemon(prefix=("python3", "-c", harness.UNDER_A_FILTER))
        findings = self.findings(target.pid)
        for subject, words in (("seccomp", "filter"), ("mode", "observe")):
            self.assertEqual("warning", findings[subject][0], findings)
            self.assertIn(words, findings[subject][1])
            self.assertIn("LD_PRELOAD", findings[subject][2])


if __name__ == "__main__":
    unittest.main()
