# SPDX-License-Identifier: Apache-2.0
"""Snapshots of running programs: the files match the programs, programs do not notice, and failures
leave nothing behind."""

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import unittest

import harness
from harness import OK, TARGETS4, TARGETS5, Process, children, eventually, proc_status
from heap_copies import SWEPT_AT_ONCE, OLD, COPIES, KILLS, LONGEST, image, is_gone, undisturbed_output, Snapshot
from stepping import CALLS, SteppedDaemon
from test_attach_faults import Exits, events_of, happen

sys.path.append(str(harness.ROOT / "tests/soak"))
import snapshot_soak  # noqa: E402 (of tests/soak)


class Taking(Snapshot):
    def test_it_holds_what_the_program_holds(self):
        target, daemon = self.attached("heap_shapes")
        self.stepping(target, daemon)
        for _ in range(3):
            _, found = self.take_while_stepping(target, daemon)
            self.assertTrue(found["complete"])
            self.assertEqual(OLD, {key: found["rows"].get(key) for key in OLD})
            least = 0 if self.programs == SWEPT_AT_ONCE else 1
            self.assertLessEqual(found["reachable"] + least, found["blocks"], "there is garbage")
        self.assertTrue(target.running())

    def test_again_and_again_under_load(self):
        target, daemon = self.attached()
        daemon.wait_state(target.pid, "sampling")
        for number in range(COPIES):
            path, done = self.take(daemon)
            self.assert_one_line(done.stdout, path, "blocks in a heap of", "was paused for")
            found = image(path)
            self.assertTrue(found["complete"])
            self.assertGreater(found["reachable"], 100)
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        told = json.loads(self.take(daemon, "-o", "json")[1].stdout)
        self.assertEqual((str(path), path.stat().st_size), (told["file"], told["file_bytes"]))
        self.assertRegex(daemon.said(), "snapshot by user 0, process .*: done, paused for .* predicted\\), ")
        piped = subprocess.run([harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "snapshot", "take", "--out",
                                "-", "--max-pause", "10s"], capture_output=True, check=True, timeout=harness.TIMEOUT)
        self.assert_one_line(piped.stderr.decode(), "stdout", "blocks in a heap of")
        path.write_bytes(piped.stdout)
        self.assertTrue(image(path)["complete"])
        self.assertEqual([path], list(self.folder.glob("*.heap*")), "nothing else is left")
        self.assertEqual(OK, daemon.detach(target.pid).returncode)
        self.check_unharmed(target)
        self.assert_same_output(target, undisturbed_output())
        harness.NOTES.append(f"{COPIES} snapshots")


class Taking5(Taking):
    programs = TARGETS5


class Refused(Snapshot):
    """Refusals before anything is done to the program."""

    def refused(self, daemon, target, *options):
        path = self.folder / "refused.heap"
        done = daemon.ctl("snapshot", "take", "--pid", target.pid, "--out", path, *options, check=False)
        self.assert_one_line(done.stderr, "memprofctl:")
        self.assertEqual([], list(self.folder.glob("refused*")), "no file is left")
        self.assertEqual([], children(target.pid))
        return done

    def test_a_pause_that_is_too_long(self):
        target, daemon = self.attached()
        daemon.wait_state(target.pid, "sampling")
        done = self.refused(daemon, target, "--max-pause", "0.0001ms")
        self.assertEqual(harness.NOT_PROFILABLE, done.returncode)
        self.assertRegex(done.stderr, f"a snapshot would pause pid {target.pid} for about .*, and .* are allowed: pass --max-pause ")
        self.assertRegex(daemon.said(), "snapshot by user 0, process .*: refused: a snapshot would pause")
        # The suggested limit is enough; retry if the machine has become slower.
        def taken():
            nonlocal done
            enough = re.search(r"pass --max-pause (\d+ms|[\d.]+s)", done.stderr)[1]
            done = daemon.ctl("snapshot", "take", "--pid", target.pid, "--out", self.folder / "taken.heap", "--max-pause", enough,
                              check=False)
            return done.returncode == OK
        eventually(taken, "a snapshot with the pause that the refusal names")

    def test_a_stopped_program(self):
        target, daemon = self.attached()
        daemon.wait_state(target.pid, "sampling")
        os.kill(target.pid, signal.SIGSTOP)
        eventually(lambda: proc_status(target.pid, "State")[0] == "T", "it is stopped")
        done = self.refused(daemon, target)
        self.assertEqual(harness.NOT_PROFILABLE, done.returncode)
        self.assertIn("it is stopped (SIGSTOP)", done.stderr)
        os.kill(target.pid, signal.SIGCONT)
        self.assertEqual(OK, self.take(daemon)[1].returncode)
        self.check_unharmed(target)

    def test_observe_mode(self):
        target, daemon = self.attached("busy_threads", "--mode", "observe")
        daemon.wait_state(target.pid, "sampling")
        self.assertIn("it is in observe mode", self.refused(daemon, target).stderr)

    def test_what_is_no_target_and_what_is_no_file(self):
        target, daemon = self.attached()
        daemon.wait_state(target.pid, "sampling")
        other = self.target("busy_threads", folder=TARGETS4)
        done = self.refused(daemon, other)
        self.assertEqual(harness.NO_PROCESS, done.returncode)
        done = daemon.ctl("snapshot", "take", "--out", "/dev/null", check=False)
        self.assertEqual(harness.USAGE, done.returncode)
        self.assertIn("not a regular file", done.stderr)
        link, elsewhere = self.folder / "link.heap", self.folder / "elsewhere"
        link.symlink_to(elsewhere)
        done = daemon.ctl("snapshot", "take", "--out", link, check=False)
        self.assertEqual(harness.USAGE, done.returncode)
        self.assertFalse(elsewhere.exists())
        self.check_unharmed(target)


class Refused5(Snapshot):
    programs = TARGETS5

    def test_domains_that_do_not_stand_still_in_time(self):
        """One domain is in C code for seconds: the others wait for it only for the allowed time,
        and then for a copy."""
        target, daemon = self.attached("heap_domains")
        self.stepping(target, daemon, "stat")

        def refused():
            taker = self.process(Process([*self.take_command(daemon, "a.heap")[:-1], "500ms"]))
            target.command("stuck")
            return taker if taker.wait() != 0 else None
        taker = eventually(refused, "it is refused")
        self.assertEqual(harness.LIMIT, taker.wait())
        self.assertRegex(taker.stderr(), r"could not be stopped together in .* ms .*--max-pause")
        self.assertEqual([], children(target.pid))
        self.assertEqual(OK, self.take_while(daemon, lambda: target.command("stat")).wait())


class Spoilt(Snapshot):
    """Copies that do not find their roots: a thread held a lock when the copy was made, or ended just afterwards."""

    def spoilt(self, how, copies):
        target, daemon = self.attached("heap_shapes")
        self.stepping(target, daemon)
        target.command(f"{how} {copies}")
        return target, daemon

    def check_goes_on(self, target, daemon):
        self.stepping(target, daemon)
        eventually(lambda: target.command(f"step {self.folder / 'own'}") and not children(target.pid), "the copies are collected")

    def check_taken(self, target, daemon):
        _, found = self.take_while_stepping(target, daemon)
        self.assertTrue(found["complete"])
        self.check_goes_on(target, daemon)

    def check_again(self, how):
        self.check_taken(*self.spoilt(how, 1))

    def test_of_one_that_ends(self):
        self.check_again("die")

    def test_of_one_that_hangs(self):
        self.check_again("hang")

    def test_of_all(self):
        target, daemon = self.spoilt("die", 1000)
        taker = self.take_while(daemon, lambda: target.command(f"step {self.folder / 'own'}"))
        self.check_goes_on(target, daemon)
        self.assertEqual(harness.LIMIT, taker.wait())
        self.assert_one_line(taker.stderr(), f"3 copies of pid {target.pid} failed",
                             "the copy ended before its roots were found, by signal 9; try again")
        target.command("die 0")
        self.check_taken(target, daemon)


class Spoilt5(Spoilt):
    programs = TARGETS5


class Ends(Snapshot):
    def test_of_memprofd_at_a_random_moment(self):
        target, expected = self.target("busy_threads", folder=self.programs), undisturbed_output()
        for seed in range(KILLS):
            with self.subTest(seed=seed):
                daemon = self.daemon("--pid", target.pid, rate=1e-3)
                daemon.wait_state(target.pid, "sampling")
                taker = self.taker(daemon, f"{seed}.heap")
                time.sleep(random.Random(seed).uniform(0, LONGEST / 2))
                daemon.kill()
                # Either it was complete, or it reports memprofd's end and leaves no file.
                if taker.wait() != 0:
                    self.assertEqual([], list(self.folder.glob(f"{seed}.heap*")))
                eventually(lambda: all(is_gone(child) for child in children(target.pid)), "the copy ends")
                self.assert_works_on(target)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        daemon.wait_state(target.pid, "sampling")
        self.take(daemon)
        self.check_unharmed(target)
        self.assertEqual(OK, daemon.detach(target.pid).returncode)
        self.assert_same_output(target, expected)
        harness.NOTES.append(f"{KILLS} kills of memprofd")

    def test_of_the_program_at_a_random_moment(self):
        """memprofd continues, and nothing of the program is left."""
        daemon = self.daemon()
        for seed in range(KILLS):
            with self.subTest(seed=seed):
                target = self.target("busy_threads", folder=self.programs)
                daemon.ctl("attach", "--pid", target.pid, "--rate", "1e-3")
                daemon.wait_state(target.pid, "sampling")
                taker = self.process(Process([*self.take_command(daemon, f"{seed}.heap"), "--pid", target.pid]))
                copies = set()

                def copied(target=target, taker=taker, copies=copies):
                    copies.update(children(target.pid))
                    return copies or not taker.running()
                eventually(copied, "it is copied")
                time.sleep(random.Random(seed).uniform(0, 0.01))
                target.kill()
                if taker.wait() != 0:
                    self.assert_one_line(taker.stderr(), "memprofctl:")
                    self.assertEqual([], list(self.folder.glob(f"{seed}.heap*")))
                eventually(lambda copies=copies: all(is_gone(copy) for copy in copies), "the copy ends")
        self.assertEqual(0, daemon.stop())
        harness.NOTES.append(f"{KILLS} kills of the program")

    def waiting(self, daemon):
        """A snapshot that waits for the program; a second request is refused."""
        pair = [self.taker(daemon, name) for name in ("a.heap", "b.heap")]
        eventually(lambda: not all(taker.running() for taker in pair), "one is refused")
        refused, waits = sorted(pair, key=lambda taker: taker.running())
        self.assertIn("another one is being taken", refused.stderr())
        self.assertEqual(harness.LIMIT, refused.wait())
        return waits

    def test_while_it_waits_for_an_idle_program(self):
        """If the client leaves or the target is detached, the wait ends at once, and nothing is
        left."""
        target, daemon = self.attached("heap_shapes")
        self.stepping(target, daemon)
        taker = self.waiting(daemon)
        taker.stop(signal.SIGINT)
        self.assertIn("interrupted", taker.stderr())
        eventually(lambda: "no one waits for the snapshot any longer" in daemon.said(), "memprofd has noticed")
        taker = self.waiting(daemon)
        self.assertEqual(OK, daemon.detach(target.pid).returncode)
        self.assertEqual(harness.NO_PROCESS, taker.wait())
        self.assertIn("was detached", taker.stderr())
        self.assertEqual([], list(self.folder.glob("*.heap*")))
        self.assertEqual(0, daemon.stop())
        self.assertTrue(target.running())

    def test_of_the_program_while_it_is_waited_for(self):
        target, daemon = self.attached("heap_shapes")
        self.stepping(target, daemon)
        taker = self.waiting(daemon)
        target.kill()
        self.assertEqual(harness.NO_PROCESS, taker.wait())
        # It was waiting, or reading the program's memory.
        self.assertRegex(taker.stderr(), f"pid {target.pid} ended while its snapshot was taken|no process with pid")
        self.assertEqual([], list(self.folder.glob("*.heap*")))


class Ends5(Ends):
    programs = TARGETS5


class BusyServers(harness.E2ETest):
    """The short form of make soak-snapshots."""

    def test_nothing_fails_and_nothing_is_left(self):
        soak = snapshot_soak.SnapshotSoak(self.folder, seed=COPIES, rest=0 if harness.MATRIX else 0.02)
        self.addCleanup(soak.close)
        harness.NOTES.append(soak.run(*((COPIES, KILLS) if harness.MATRIX else (4, 2))))


def copies():
    """Copies of this build's programs."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "comm").read_text().strip() == "memprof-copy" and not is_gone(process.name):
                found += [process.name] * os.readlink(process / "exe").startswith(str(harness.BUILD))
    return found


class Faults(Snapshot):
    """During a snapshot, a system call of memprofd fails or the program does something."""

    programs = TARGETS5

    def setUp(self):
        super().setUp()
        self.expected = undisturbed_output()
        self.memprofd = self.process(SteppedDaemon(self.folder, rate=1e-3))

    def sampled(self):
        target = self.target("busy_threads", folder=self.programs)
        self.memprofd.attach(target.pid)
        self.memprofd.wait_state(target.pid, "sampling")
        return target

    def counts(self):
        """Number of calls of each kind in an undisturbed snapshot."""
        target = self.sampled()
        self.memprofd.stop_at(1_000_000_000, *CALLS)
        self.assertEqual(OK, self.taker(self.memprofd, "counts.heap").wait())
        counts = self.memprofd.off()
        target.kill()
        return {name: count for name, count in counts.items() if count}

    def hold(self, taker, name, position):
        self.memprofd.stop_at(position, name)
        while taker.running():
            if self.memprofd.held(timeout=0.05):
                return True
        return False

    def disturbed(self, target, name, position, event):
        """(whether the fault happened, exit code of memprofctl)"""
        taker = self.process(Process([*self.take_command(self.memprofd, "a.heap"), "--pid", target.pid]))
        reached = self.hold(taker, name, position)
        if reached:
            happen(event, self.memprofd, name)
        self.memprofd.off()
        if taker.wait() != 0:
            self.assert_one_line(taker.stderr(), "memprofctl:")
            self.assertEqual([], list(self.folder.glob("a.heap*")))
        (self.folder / "a.heap").unlink(missing_ok=True)
        eventually(lambda: not copies(), "the copy ends")
        return reached

    def check_next(self, target):
        """The program is unchanged: another snapshot works, and nothing is left of the first."""
        def taken():
            return self.take(self.memprofd, "--pid", target.pid, name="next.heap", check=False)[1].returncode == OK
        eventually(taken, "a snapshot is taken")
        self.assertEqual(OK, self.memprofd.detach(target.pid).returncode)
        self.check_unharmed(target)
        self.assert_same_output(target, self.expected)

    def trial(self, name, position, kind):
        target = self.sampled()
        event = kind(target)
        with self.subTest(call=name, position=position, event=kind.__name__):
            reached = self.disturbed(target, name, position, event)
            if isinstance(event, Exits) and reached:
                self.assertEqual(0, target.wait(), target.stderr())
            elif not event.ends or not reached:
                self.check_next(target)
        target.kill()
        self.processes = [self.memprofd]

    def test_at_each_kind_of_call(self):
        trials = 0
        for turn, (name, count) in enumerate(self.counts().items()):
            for kind in events_of(turn):
                self.trial(name, 1 + turn * 7 % count, kind)
                trials += 1
        harness.NOTES.append(f"{trials} faults")


if __name__ == "__main__":
    unittest.main()
