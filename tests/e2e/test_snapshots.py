# SPDX-License-Identifier: Apache-2.0
"""Snapshots of running programs: the files match the programs, programs do not notice, and failures
leave nothing behind."""

import collections
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

import grpc

import harness
from harness import OK, TARGETS5, Process, children, eventually, proc_status
from stepping import CALLS, SteppedDaemon
from test_attach_faults import Exits, events_of, happen
from test_profiles import message_modules
from test_heap import SWEPT_AT_ONCE, TARGETS4, OLD, COPIES, KILLS, LONGEST, HeapCopy, is_gone, undisturbed_output

sys.path.append(str(harness.ROOT / "tests/soak"))
import snapshot_soak  # noqa: E402 (of tests/soak)

IMAGE = harness.BUILD / "tests" / "heap_image"


def image(path):
    """Contents of a snapshot file."""
    found = json.loads(subprocess.run([IMAGE, path], capture_output=True, text=True, check=True).stdout)
    found["rows"] = {(tag, fields): blocks for tag, fields, blocks in found["rows"]}
    return found


class Snapshot(HeapCopy):
    """The users' command, on unprepared programs."""

    def attached(self, name="busy_threads", *options, **daemon_options):
        target = self.target(name, folder=self.programs)
        daemon = self.daemon("--pid", target.pid, *options, rate=1e-3, **daemon_options)
        return target, daemon

    def take(self, daemon, *options, name="a.heap", **rest):
        path = self.folder / name
        done = daemon.ctl("snapshot", "take", "--out", path, "--max-pause", "10s", *options, **rest)
        return path, done

    def take_command(self, daemon, name):
        return [harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "snapshot", "take", "--out",
                self.folder / name, "--max-pause", "10s"]

    def taker(self, daemon, name):
        return self.process(Process(self.take_command(daemon, name)))

    def heaps(self, daemon):
        """gRPC's Heaps: the messages, and a function to ask while `meanwhile` runs."""
        _, pb = message_modules(self.folder, "memprof/v1/profiler.proto", "memprof/v1/heaps.proto")

        def ask(method, request, answer, meanwhile=lambda: time.sleep(0.01)):
            with grpc.insecure_channel(f"unix:{daemon.socket}") as channel:
                call = channel.unary_unary(f"/memprof.v1.Heaps/{method}", request_serializer=type(request).SerializeToString,
                                           response_deserializer=answer.FromString).future(request, timeout=harness.TIMEOUT)
                while not call.done():
                    meanwhile()
                return call.result()
        return pb, ask

    def stepping(self, target, daemon, command=""):
        """Gives an idle program work until it is sampled."""
        def sampling():
            target.command(command or f"step {self.folder / 'own'}")
            return daemon.state(target.pid) == "sampling"
        eventually(sampling, "it is sampled")

    def take_while(self, daemon, work):
        """The finished taker; the program works meanwhile."""
        taker = self.taker(daemon, "a.heap")
        work()
        while taker.running():
            work()
        return taker

    def take_while_stepping(self, target, daemon):
        taker = self.taker(daemon, "a.heap")
        told = target.command(f"step {self.folder / 'own'}")
        while taker.running():
            told = target.command(f"step {self.folder / 'own'}")
        self.assertEqual(0, taker.wait(), taker.stderr())
        return told, image(self.folder / "a.heap")

    def check_same_garbage(self, told, garbage):
        """The command and gRPC report the same; times are exact to the resolution of the command's
        text."""
        def known(row, name):
            return round(getattr(row, name), 9) if row.HasField(name) else None
        for name, count in (("garbage", garbage.garbage), ("young", garbage.young), ("dead", garbage.dead)):
            self.assertEqual((told[name]["blocks"], told[name]["bytes"]), (count.blocks, count.bytes))
        self.assertEqual(told["longest_wait_seconds"], known(garbage, "longest_wait_seconds"))
        self.assertEqual([(row["name"], row["sampled_blocks"], row["bytes"], row["young"]["bytes"], row["ages"]["p50_seconds"],
                           row["ages"]["p90_seconds"], row["ages"]["longest_seconds"], row["longest_wait_seconds"])
                          for row in told["sites"]],
                         [(row.name, row.sampled_blocks, row.bytes, row.young.bytes, known(row.ages, "p50_seconds"),
                           known(row.ages, "p90_seconds"), known(row.ages, "longest_seconds"), known(row, "longest_wait_seconds"))
                          for row in garbage.sites])


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


class ByItself(Snapshot):
    """memprofd takes snapshots by its rules."""

    def watched(self, name, *rules):
        self.taken = self.folder / "auto"
        self.taken.mkdir()
        options = [word for rule in rules for word in ("--snapshot.when", rule)]
        return self.attached(name, "--snapshot.directory", self.taken, "--snapshot.max-pause", "10s", *options)

    def files(self):
        return sorted(self.taken.glob("*.heap"), key=lambda path: path.stat().st_mtime_ns)

    def outcomes(self, daemon, outcome):
        return daemon.metrics().value("memprofd_heap_snapshots_total", outcome=outcome)

    def test_after_major_collections_and_at_the_programs_end(self):
        target, daemon = self.watched("heap_shapes", "majors=2", "end")
        self.stepping(target, daemon)

        def taken():
            target.command(f"step {self.folder / 'own'}")
            return self.files()
        [first] = eventually(taken, "one is taken after major collections")
        self.assertRegex(first.name, rf"^auto-heap_shapes-{target.pid}-\d+T\d+Z\.heap$")
        self.assertEqual(0o600, first.stat().st_mode & 0o777)
        target.send("end")
        self.assertEqual(0, target.wait(), target.stderr())
        eventually(lambda: len(self.files()) == 2, "one is taken at its end")
        for path in self.files():
            found = image(path)
            self.assertTrue(found["complete"])
            self.assertEqual(OLD, {key: found["rows"].get(key) for key in OLD})
        self.assertRegex(daemon.said(), r"snapshot \(majors=2\) by memprofd itself: done, paused for .*, in .*auto-heap_shapes")
        self.assertRegex(daemon.said(), r"snapshot \(end\) by memprofd itself: done")
        self.assertEqual(2, self.outcomes(daemon, "taken"))
        self.assertEqual(2, daemon.metrics().value("memprofd_target_heap_snapshots_total", pid=str(target.pid)))
        self.assertEqual(2, daemon.metrics().value("memprofd_heap_snapshot_duration_seconds_count"))
        pauses = daemon.metrics().value("memprofd_heap_snapshot_pause_seconds_sum")
        self.assertLess(0, pauses)
        self.assertLess(pauses, daemon.metrics().value("memprofd_heap_snapshot_duration_seconds_sum"))
        self.check_kept(daemon, target.pid)

    def check_kept(self, daemon, pid):
        """gRPC and memprofctl agree about the stored snapshots."""
        last, first = [path.name for path in reversed(self.files())]
        pb, ask = self.heaps(daemon)
        heaps = ask("ListHeaps", pb.ListHeapsRequest(pid=pid), pb.ListHeapsResponse)
        self.assertEqual((str(self.taken), [last, first]), (heaps.directory, [heap.name for heap in heaps.heaps]))
        self.assertEqual({path.name: path.stat().st_size for path in self.files()},
                         {heap.name: heap.file_bytes for heap in heaps.heaps})
        diff = ask("CompareHeaps", pb.CompareHeapsRequest(base=first, other=last, limit=1000), pb.HeapDiff)
        told = json.loads(harness.memprofctl("snapshot", "diff", self.taken / first, self.taken / last, "-o", "json").stdout)
        for table, rows in (("heap", diff.heap), ("roots", diff.roots)):
            self.assertEqual([(row["name"], row["change_bytes"], row["other"]["blocks"]) for row in told[table]],
                             [(row.name, row.change_bytes, row.other.blocks) for row in rows])
        self.assertEqual([(row["name"], row["other"]["bytes"], row["stayed"]["bytes"]) for row in told["sites"]],
                         [(row.name, row.other.bytes, row.stayed.bytes) for row in diff.sites])
        waste = ask("FindWaste", pb.FindWasteRequest(name=last, limit=1000), pb.HeapWaste)
        told = json.loads(harness.memprofctl("snapshot", "waste", self.taken / last, "-o", "json").stdout)
        self.assertEqual([(row["pattern"], row["bytes_to_win"], len(row["places"])) for row in told["patterns"]],
                         [(row.pattern, row.bytes_to_win, len(row.places)) for row in waste.patterns])
        largest = ask("FindLargest", pb.FindLargestRequest(name=last, limit=5), pb.HeapLargest)
        told = json.loads(harness.memprofctl("snapshot", "largest", self.taken / last, "-n", "5", "-o", "json").stdout)
        self.assertEqual([(row["class_name"], row["bytes"], row["path"]) for row in told["blocks"]],
                         [(row.class_name, row.bytes, row.path) for row in largest.blocks])
        garbage = ask("FindGarbage", pb.FindGarbageRequest(name=last, limit=1000), pb.HeapGarbage)
        self.assertEqual(last, garbage.snapshot.name)
        told = json.loads(harness.memprofctl("snapshot", "garbage", self.taken / last, "-o", "json").stdout)
        self.check_same_garbage(told, garbage)

    def test_when_it_is_asked_for(self):
        """Without a rule only requested snapshots are taken, and all are kept."""
        target, daemon = self.watched("heap_shapes")
        self.stepping(target, daemon)
        pb, ask = self.heaps(daemon)
        kept = ask("KeepHeap", pb.KeepHeapRequest(pid=target.pid, max_pause_seconds=10), pb.KeepHeapResponse,
                   lambda: target.command(f"step {self.folder / 'own'}")).heap
        [path] = self.files()
        self.assertEqual((path.name, target.pid, path.stat().st_size), (kept.name, kept.pid, kept.file_bytes))
        self.assertEqual(OLD, {key: image(path)["rows"].get(key) for key in OLD})
        self.assertRegex(daemon.said(), "snapshot to keep by user 0, process .*: done")
        with self.assertRaises(grpc.RpcError) as refused:
            ask("FindWaste", pb.FindWasteRequest(name=f"../auto/{path.name}"), pb.HeapWaste)
        self.assertEqual(grpc.StatusCode.NOT_FOUND, refused.exception.code())

    def test_when_the_command_asks_for_it(self):
        target, daemon = self.watched("heap_shapes")
        self.assertIn("no snapshots are stored in", daemon.ctl("snapshot", "list").stdout)
        self.stepping(target, daemon)
        taker = self.process(Process([harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "snapshot", "take",
                                      "--keep", "--max-pause", "10s"]))
        while taker.running():
            target.command(f"step {self.folder / 'own'}")
        self.assertEqual(0, taker.wait(), taker.stderr())
        [path] = self.files()
        listed = json.loads(daemon.ctl("snapshot", "list", "--pid", target.pid, "-o", "json").stdout)
        self.assertEqual((str(self.taken), [path.name]), (listed["directory"], [heap["name"] for heap in listed["heaps"]]))
        self.assertIn(path.name, daemon.ctl("snapshot", "list").stdout)
        self.assertEqual([], json.loads(daemon.ctl("snapshot", "list", "--pid", 1, "-o", "json").stdout)["heaps"])


class ByItself5(ByItself):
    programs = TARGETS5


class Points(ByItself):
    """Snapshots at points of the program's code; the agent's library is linked in."""

    programs = harness.TARGETS
    test_after_major_collections_and_at_the_programs_end = None
    test_when_it_is_asked_for = None
    test_when_the_command_asks_for_it = None

    def test_at_a_point_of_the_program(self):
        target, daemon = self.watched("points", "point")
        self.stepping(target, daemon, "work")
        eventually(lambda: target.command("point after-load")["taken"], "it waits for its snapshot")
        [path] = self.files()
        found = image(path)
        self.assertTrue(found["complete"])
        self.assertLessEqual(1000, found["rows"][0, 3], "what is there at the point alone")
        self.assertRegex(daemon.said(), r"snapshot \(point after-load\) by memprofd itself: done")
        self.assertFalse(target.command("point again")["taken"], "too soon")
        self.assertEqual(1, self.outcomes(daemon, "too_soon"))
        self.assertEqual(OK, daemon.detach(target.pid).returncode)
        self.assertEqual(0, daemon.stop())
        self.assertFalse(target.command("point alone")["taken"], "nobody is there")


class Names(Snapshot):
    def test_of_roots(self):
        target, daemon = self.attached()
        daemon.wait_state(target.pid, "sampling")
        path, _ = self.take(daemon)
        found = image(path)
        modules = {owner for kind, owner, _, _, _ in found["roots"] if kind == 0}
        self.assertLessEqual({"Busy_threads", "Stdlib", "Handshake", "Unix"}, modules)
        fields = {field for kind, owner, field, _, _ in found["roots"] if owner == "Busy_threads" and kind == 0}
        self.assertGreaterEqual(min(fields), 0)
        frames = {(owner, function) for kind, owner, _, function, _ in found["roots"] if kind == 2}
        self.assertEqual({f"thread {number}" for number in range(9)}, {owner for owner, _ in frames})
        functions = {function for _, function in frames}
        self.assertLessEqual({"Busy_threads.serve", "Busy_threads.client"}, functions)
        self.assertIn("Busy_threads.(fun)", found["names"])
        self.assertIn("_chan", found["names"])
        self.assertEqual(daemon.targets()[target.pid]["sampling_rate"], found["rate"])

    def test_of_sampled_blocks(self):
        target, daemon = self.attached()
        daemon.wait_state(target.pid, "sampling")

        def sites_of_blocks_that_are_there():
            path, _ = self.take(daemon)
            return {site for _, samples, words, site in image(path)["samples"] if samples > 0 and words > 0} - {""}
        found = eventually(sites_of_blocks_that_are_there, "sampled blocks are in a snapshot")
        self.assertLessEqual(found, {site["function"] for site in daemon.sites(target.pid)})


class Names5(Names):
    programs = TARGETS5

    def test_of_fibers(self):
        """Blocks that only the stack of a suspended fiber holds, or of a fiber that it returns
        to."""
        target, daemon = self.attached("heap_domains")
        self.stepping(target, daemon, "stat")
        taker = self.taker(daemon, "a.heap")
        told = target.command("park")
        while taker.running():
            told = target.command("park")
        self.assertEqual(0, taker.wait(), taker.stderr())
        found = image(self.folder / "a.heap")
        waits = "Heap_domains.wait_holding"
        fibers = {tuple(held): count for *held, count in found["fibers"]}
        self.assertLessEqual(500, fibers.get((waits, waits, 60, 100), 0), fibers)
        self.assertLessEqual(500, fibers.get((waits, waits, 61, 3), 0), fibers)
        self.assertAlmostEqual(told["live_blocks"], found["reachable"], delta=400)

    def test_of_domains(self):
        target, daemon = self.attached("heap_domains")
        self.stepping(target, daemon, "stat")
        self.assertEqual(0, self.take_while(daemon, lambda: target.command("stat")).wait())
        roots = image(self.folder / "a.heap")["roots"]
        frames = {(owner, function) for kind, owner, _, function, _ in roots if kind == 2}
        workers = {owner for owner, function in frames if function == "Heap_domains.work"}
        self.assertEqual(3, len(workers), frames)
        for owner in workers:
            self.assertRegex(owner, r"^domain [1-9]\d*, thread \d+$")
        self.assertIn("domain 0, thread 0", {owner for owner, _ in frames})
        storage = {owner for kind, owner, _, _, _ in roots if kind == 4 and "local storage" in owner}
        self.assertLessEqual({f"local storage of {owner.split(',')[0]}" for owner in workers}, storage)


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


class Reading(Snapshot):
    """memprofctl's answers about a snapshot file match the program."""

    # Includes malloc's overhead per chunk, 8 bytes per Bigarray, and channels beyond their buffers.
    outside = {"custom _bigarr02": 8008 + 1208 + 392, "custom _mutex": 40, "custom _threadstatus": 104}
    channels = 3 * 65536 + 344

    def ask(self, question, path, *options):
        """The answer in JSON; checks that the table works, too."""
        command = [harness.BUILD / "memprofctl", "snapshot", question, path, *options]
        table = subprocess.run(command, capture_output=True, text=True, timeout=harness.TIMEOUT)
        self.assertEqual((OK, ""), (table.returncode, table.stderr))
        self.assertIn("OCaml 5." if self.programs == TARGETS5 else "OCaml 4.", table.stdout.splitlines()[0])
        return json.loads(subprocess.run([*command, "-n", "0", "-o", "json"], capture_output=True, check=True,
                                         timeout=harness.TIMEOUT).stdout)

    def sizes(self, rows):
        for row in rows:
            yield row["bytes"]
            yield from self.sizes(row.get("children", []))

    def test_every_block_is_counted(self):
        target, daemon = self.attached("heap_shapes")
        self.stepping(target, daemon)
        told, found = self.take_while_stepping(target, daemon)
        path = self.folder / "a.heap"
        shown = self.ask("show", path)
        shapes = {row["name"]: row["reachable"]["blocks"] for row in shown["shapes"]}
        self.assertEqual(OLD, {(tag, fields): shapes.get(f"block({fields}, tag {tag})") for tag, fields in OLD})
        outside = {row["name"]: row["outside_bytes"] for row in shown["shapes"] if row["outside_bytes"]}
        # Channels have types if the machine has this compiler's library.
        channels = sum(outside.pop(name, 0) for name in ("custom _chan", "in_channel", "out_channel"))
        self.assertEqual((self.outside, self.channels), (outside, channels))
        self.assertEqual(sum(outside.values()) + channels, shown["heap"]["outside_bytes"])
        reachable = shown["heap"]["reachable"]
        self.assertEqual(found["reachable"], reachable["blocks"])
        self.assertEqual(found["blocks"], reachable["blocks"] + shown["heap"]["garbage"]["blocks"])
        retained = self.ask("retained", path)
        self.assertEqual({**reachable, "outside_bytes": shown["heap"]["outside_bytes"]}, retained["reachable"])
        self.assertEqual(reachable["bytes"], sum(root["bytes"] for root in retained["roots"]))
        self.assertIn(8 * told["kept_words"], set(self.sizes(retained["roots"])), "what only one global keeps")
        self.ask("waste", path)
        largest = self.ask("largest", path)["blocks"]
        self.assertIn(("custom _bigarr02", 8008), [(row["class_name"], row["outside_bytes"]) for row in largest])
        self.check_description(target, daemon, told["kept_words"])

    def check_description(self, target, daemon, kept_words):
        """gRPC reports the same about a snapshot that is not stored."""
        pb, ask = self.heaps(daemon)
        heap = ask("DescribeHeap", pb.DescribeHeapRequest(pid=target.pid, max_pause_seconds=10, limit=10_000),
                   pb.DescribeHeapResponse, lambda: target.command(f"step {self.folder / 'own'}"))
        classes = {one.name: one.reachable.blocks for one in heap.census.shapes}
        self.assertEqual(OLD, {(tag, fields): classes.get(f"block({fields}, tag {tag})") for tag, fields in OLD})
        self.assertEqual(sum(self.outside.values()) + self.channels, heap.census.heap.outside_bytes)
        self.assertEqual(heap.census.heap.reachable.bytes, sum(root.bytes for root in heap.retained.roots))
        sizes, rows = set(), list(heap.retained.roots)
        while rows:
            row = rows.pop()
            sizes.add(row.bytes)
            rows += row.children
        self.assertIn(8 * kept_words, sizes, "what only one global keeps")
        self.assertRegex(daemon.said(), "snapshot to describe by user 0, process .*: done")

    def assert_in_the_table(self, way):
        """The path splits after the array if a sampled table cell gives its type."""
        wholes = [way["path"] + child["path"] for child in way["children"]] or [way["path"]]
        for whole in wholes:
            self.assertRegex(whole, r"^global Demo_server, field \d+ → block\(4\) field 1 → array\[\*\]")

    def test_why_what_a_site_allocated_is_there(self):
        target = self.target("demo_server", "--self-load", "2", folder=self.programs)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        eventually(lambda: any(site["function"].endswith("make_session") and site["live_bytes"]
                               for site in daemon.sites(target.pid)), "sessions are sampled")
        path, done = self.take(daemon)
        self.assertEqual(OK, done.returncode, done.stderr)
        why = self.ask("why", path, r"Sessions\.make_session")
        reachable = why["reachable"]["sampled_blocks"]
        self.assertGreater(reachable, 0)
        self.assertEqual(reachable, sum(way["sampled_blocks"] for way in why["paths"]))
        self.assert_in_the_table(why["paths"][0])
        none = subprocess.run([harness.BUILD / "memprofctl", "snapshot", "why", path, "Nowhere"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(harness.NO_PROCESS, none.returncode)
        self.assert_one_line(none.stderr, "no sampled block's callstack matches")

    def test_why_in_one_step(self):
        """Takes a snapshot of the present state; a misspelt site does not pause it."""
        target = self.target("demo_server", "--self-load", "2", folder=TARGETS4)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        eventually(lambda: any(site["function"].endswith("make_session") and site["live_bytes"]
                               for site in daemon.sites(target.pid)), "sessions are sampled")
        options = ("--max-pause", "10s")
        why = json.loads(daemon.ctl("why", r"Sessions\.make_session", *options, "-n", 0, "-o", "json").stdout)
        reachable = why["reachable"]["sampled_blocks"]
        self.assertGreater(reachable, 0)
        self.assertEqual(reachable, sum(way["sampled_blocks"] for way in why["paths"]))
        self.assert_in_the_table(why["paths"][0])
        self.check_asked_why(target, daemon, why)
        table = daemon.ctl("why", r"Sessions\.make_session", *options).stdout
        self.assertIn("global Demo_server, field", table)
        eventually(lambda: daemon.targets()[target.pid]["paused_seconds"] > why["snapshot"]["pause_seconds"],
                   "the pauses are counted")
        for pattern, code, words in (("Nowhere", harness.NO_PROCESS, 'a callstack that matches "Nowhere"'),
                                     ("(", harness.USAGE, "site")):
            done = daemon.ctl("why", pattern, *options, check=False)
            self.assertEqual(code, done.returncode)
            self.assert_one_line(done.stderr, "memprofctl:", words)
        self.assertEqual(2, daemon.said().count("snapshot by"), "none was asked for then")

    def check_asked_why(self, target, daemon, why):
        """gRPC sends the message that the command prints."""
        pb, ask = self.heaps(daemon)
        answer = ask("Why", pb.WhyRequest(pid=target.pid, site=r"Sessions\.make_session", max_pause_seconds=10), pb.HeapWhy)
        self.assertEqual({field.name for field in pb.HeapWhy.DESCRIPTOR.fields}, set(why))
        self.assertEqual(why["sites"], list(answer.sites))
        self.assertGreaterEqual(answer.reachable.sampled_blocks, why["reachable"]["sampled_blocks"])
        # This is another snapshot with other sessions, behind the same global.
        for path in (why["paths"][0]["path"], answer.paths[0].path):
            self.assertRegex(path, r"^global Demo_server, field \d+ → block\(\d\) field 1 → array")
        self.assertRegex(daemon.said(), "snapshot for why by user 0, process .*: done")

    def query(self, path, sql):
        """Rows as dictionaries; checks that the table has a line for each."""
        command = [harness.BUILD / "memprofctl", "snapshot", "query", path, sql]
        answer = json.loads(subprocess.run([*command, "-o", "json"], capture_output=True, check=True,
                                           timeout=harness.TIMEOUT).stdout)
        table = subprocess.run([*command, "-n", "0"], capture_output=True, text=True, check=True,
                               timeout=harness.TIMEOUT).stdout
        self.assertEqual(1 + len(answer["rows"]), len(table.splitlines()))
        return [dict(zip(answer["columns"], row)) for row in answer["rows"]]

    def test_the_documents_queries(self):
        """Each example of docs/heap_sql.md has an answer that agrees with other commands."""
        target = self.target("demo_server", "--self-load", "2", folder=self.programs)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        eventually(lambda: any(site["function"].endswith("make_session") and site["live_bytes"]
                               for site in daemon.sites(target.pid)), "sessions are sampled")
        path, _ = self.take(daemon)
        text = (harness.ROOT / "docs/heap_sql.md").read_text()
        chapter = text.split("## Examples\n")[1].split("\n## ")[0]
        examples = re.findall(r"^\*\*(.+)\*\*.*\n\n((?:    .+\n)+)", chapter, re.M)
        self.assertEqual(10, len(examples))
        answers = {title: self.query(path, sql) for title, sql in examples}
        self.assertEqual([], [title for title, rows in answers.items() if not rows])
        shown = self.ask("show", path)
        closures = collections.Counter()
        for row in shown["shapes"]:
            closures[row["name"].split(" : ")[0]] += row["reachable"]["blocks"]  # without the type
        for row in answers["Which functions' closures are kept?"]:
            self.assertEqual(closures["closure " + row["name"] if row["name"] else "closure"], row["closures"])
        sites = {}
        for row in shown["sites"]:
            function, _, place = row["name"].rpartition(" ")
            sites[function or place, int(place.rpartition(":")[2]) if function else None] = row["reachable"]["bytes"]
        for row in answers["How much of each site is reachable, how much is garbage?"]:
            self.assertAlmostEqual(sites[row["function"] or "(unknown)", row["line"]], row["reachable"] or 0, delta=1)
        modules = {row["name"]: row for root in self.ask("retained", path)["roots"] if root["name"] == "globals"
                   for row in root["children"]}
        for row in answers["How much does each module keep that no other does?"]:
            self.assertEqual(modules[row["name"]]["bytes"], row["bytes"])
        self.assertEqual(shown["free"]["bytes"],
                         answers["How much of the free memory is in blocks of up to a size?"][-1]["up_to_here"])

    def test_blocks_have_types_of_the_source(self):
        """Blocks have source types with .cmt files, and shapes without."""
        target = self.target("demo_server", "--self-load", "2", folder=self.programs)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        eventually(lambda: any(site["function"].endswith("make_session") and site["live_bytes"]
                               for site in daemon.sites(target.pid)), "sessions are sampled")
        path, _ = self.take(daemon)
        cmt = [option for folder in self.cmt() for option in ("--cmt", folder)]
        shown = self.ask("show", path, *cmt)
        share = shown["types"]["typed"]["bytes"] / shown["heap"]["reachable"]["bytes"]
        harness.NOTES.append(f"{share:.1%} typed")
        self.assertLess(0.9, share)
        self.assertEqual(0, shown["types"]["disagreed"])
        blocks = {row["name"]: row["reachable"]["blocks"] for row in shown["shapes"]}
        sessions = blocks["Demo_server.Sessions.session"]
        self.assertEqual(sessions, blocks["(int, Demo_server.Sessions.session) Hashtbl.bucketlist.Cons"])
        self.assertLessEqual(sessions, blocks["bytes"], "each has a draft")
        self.assertEqual(blocks["Demo_server.Cache.page"],
                         blocks["(string, Demo_server.Cache.page) Hashtbl.bucketlist.Cons"])
        why = self.ask("why", path, r"Sessions\.make_session", *cmt)["paths"][0]["path"]
        self.assertRegex(why, r"^global Demo_server\.Sessions\.\w+ → \(int, .*\) Hashtbl\.t\.data → .* array\[\*\] → .*"
                              r"\.Cons( up to ×\d+ )?\.data → Demo_server\.Sessions\.session")
        retained = json.dumps(self.ask("retained", path, "--depth", "5", *cmt))
        self.assertIn("Demo_server.Sessions.session", retained)
        self.assertRegex(retained, r'"name": "(several, nearest global Demo_server\.)?Sessions\.\w+"')
        rows = json.loads(harness.memprofctl("snapshot", "query", path, *cmt, "-o", "json",
                                             "SELECT type, count(*) FROM blocks WHERE type LIKE '%session' AND reachable "
                                             "GROUP BY 1").stdout)["rows"]
        self.assertEqual([["Demo_server.Sessions.session", sessions]], rows)
        converted = self.folder / "a.heapsnapshot"
        self.assertEqual(OK, harness.memprofctl("snapshot", "convert", path, *cmt, "--out", converted).returncode)
        self.assertIn("Demo_server.Sessions.session", json.loads(converted.read_text())["strings"])
        without = {row["name"] for row in self.ask("show", path)["shapes"]}
        self.assertNotIn("Demo_server.Sessions.session", without)

    def test_memprofd_gives_blocks_their_types_too(self):
        """Types in memprofd's own answers about new and stored snapshots."""
        kept = self.folder / "auto"
        kept.mkdir()
        places = [option for folder in self.cmt() for option in ("--snapshot.cmt", folder)]
        target = self.target("demo_server", "--self-load", "2", folder=self.programs)
        daemon = self.daemon("--pid", target.pid, "--snapshot.directory", kept, *places, rate=1e-3)
        daemon.wait_state(target.pid, "sampling")
        pb, ask = self.heaps(daemon)
        heap = ask("DescribeHeap", pb.DescribeHeapRequest(pid=target.pid, max_pause_seconds=10, depth=5, limit=1000),
                   pb.DescribeHeapResponse)
        self.check_typed(heap.census.types)
        self.assertLess({"Demo_server.Sessions.session", "string list"}, {row.name for row in heap.census.shapes})
        self.assertIn("(int, Demo_server.Sessions.session) Hashtbl.t", str(heap.retained.roots))
        for _ in range(2):
            ask("KeepHeap", pb.KeepHeapRequest(pid=target.pid, max_pause_seconds=10), pb.KeepHeapResponse)
        last, first = [heap.name for heap in ask("ListHeaps", pb.ListHeapsRequest(), pb.ListHeapsResponse).heaps]
        diff = ask("CompareHeaps", pb.CompareHeapsRequest(base=first, other=last, limit=1000), pb.HeapDiff)
        self.check_typed(diff.base_types)
        self.check_typed(diff.other_types)
        self.assertIn("Demo_server.Sessions.session", {row.name for row in diff.shapes})
        self.check_typed(ask("FindWaste", pb.FindWasteRequest(name=last), pb.HeapWaste).types)
        self.check_census(daemon, target.pid, pb, ask)

    def check_census(self, daemon, pid, pb, ask):
        """Censuses of stored snapshots, and metrics of the last one, match memprofctl's."""
        def told():
            return ask("ListCensuses", pb.ListCensusesRequest(pid=pid, limit=100), pb.ListCensusesResponse)
        eventually(lambda: told().uncounted == 0, "both are counted")
        censuses = told()
        cmt = [option for folder in self.cmt() for option in ("--cmt", folder)]
        for i, heap in enumerate(censuses.heaps):
            shown = self.ask("show", self.folder / "auto" / heap.name, *cmt)
            blocks = {row["name"]: row["reachable"]["blocks"] for row in shown["shapes"]}
            self.check_typed(censuses.types[i])
            self.assertEqual({row.name: blocks.get(row.name, 0) for row in censuses.classes},
                             {row.name: row.counts[i].blocks for row in censuses.classes})
            self.assertEqual(shown["heap"]["reachable"]["blocks"],
                             sum(row.counts[i].blocks for row in censuses.classes) + censuses.other[i].blocks)
        metrics = daemon.metrics()
        self.assertEqual(blocks["Demo_server.Sessions.session"],
                         metrics.value("memprofd_heap_class_blocks", pid=str(pid), **{"class": "Demo_server.Sessions.session"}))
        self.assertEqual(shown["types"]["typed"]["bytes"], metrics.value("memprofd_heap_typed_bytes", pid=str(pid)))

    def check_typed(self, types):
        self.assertLess(0.9, types.typed.bytes / types.reachable.bytes)
        self.assertEqual((0, False), (types.disagreed, types.out_of_time))

    def cmt(self):
        """Folders with types of the program and of its OCaml library."""
        if self.programs != TARGETS5:
            return [self.programs / "obj"]
        release = self.programs.name.removeprefix("targets-")
        prefix = subprocess.run([harness.ROOT / "tests/targets/debian-prefix.sh", release], capture_output=True,
                                text=True, check=True).stdout.strip()
        return [self.programs / "demo_server-types", *pathlib.Path(prefix).glob("usr/lib/*/ocaml")]

    def test_a_query_counts_what_the_program_has(self):
        target, daemon = self.attached("heap_shapes")
        self.stepping(target, daemon)
        told, found = self.take_while_stepping(target, daemon)
        path = self.folder / "a.heap"
        rows = self.query(path, "select tag, fields, count(*) as n from blocks group by tag, fields")
        counted = {(row["tag"], row["fields"]): row["n"] for row in rows}
        self.assertEqual(found["rows"], counted)
        self.assertEqual(OLD, {key: counted[key] for key in OLD})
        [reachable] = self.query(path, "select count(*) as n from blocks where reachable")
        self.assertEqual(found["reachable"], reachable["n"])
        [kept] = self.query(path, f"select count(*) as n from retained where bytes = 8 * {told['kept_words']}")
        self.assertGreater(kept["n"], 0, "Obj.reachable_words of what only one global keeps")
        refused = subprocess.run([harness.BUILD / "memprofctl", "snapshot", "query", path,
                                  f"attach '{self.folder}/x.db' as x"], capture_output=True, text=True, check=False)
        self.assertEqual(harness.USAGE, refused.returncode)
        self.assert_one_line(refused.stderr, "only SELECT is allowed")
        self.assertFalse((self.folder / "x.db").exists())

    def test_what_the_program_marks(self):
        """Marked values have the program's names; the query of docs/heap_sql.md finds the values of
        a tag."""
        target, daemon = self.attached("reports")
        self.stepping(target, daemon, "minor")
        target.command("mark 300")
        self.assertEqual(0, self.take_while(daemon, lambda: target.command("minor")).wait())
        path = self.folder / "a.heap"
        marked = {owner for kind, owner, _, _, _ in image(path)["roots"] if kind == 8}
        self.assertLessEqual({"count", "ratio", "table", "marked{kind=record}"}, marked)
        chapter = (harness.ROOT / "docs/heap_sql.md").read_text().split("## Marked values\n")[1]
        query = re.search(r"((?:^    .+\n)+)", chapter, re.M).group(1)
        [row] = [row for row in self.query(path, query) if row["name"] == "marked{kind=record}"]
        self.assertEqual(150, row["marked"], "each second one has died")
        self.assertGreater(row["retained_bytes"], row["bytes"] - 1)

    def test_what_ephemerons_keep(self):
        """Before the collection, a snapshot shows by tag what the collector will keep."""
        target, daemon = self.attached("heap_shapes")
        self.stepping(target, daemon, "weak")
        path = self.folder / "a.heap"

        def kept():
            self.assertEqual(0, self.take_while(daemon, lambda: target.command("weak")).wait())
            rows = self.query(path, "select tag, count(*) as n, sum(reachable) as kept from blocks "
                                    "where tag between 61 and 64 group by tag")
            # Skip snapshots taken while the ephemerons are created, or after the last was
            # collected.
            return {str(row["tag"]): row["kept"] for row in rows if row["n"] > row["kept"] or row["tag"] == 64}
        expected = {"61": 21, "62": 21, "63": 20, "64": 1}
        # Each try takes a second or more, and only some moments of a collection show the
        # difference.
        eventually(lambda: kept() == expected, "there is something to tell apart", 4 * harness.TIMEOUT)
        self.assertEqual(expected, target.command("collect"))
        classes = {row["name"]: row["reachable"]["blocks"] for row in self.ask("show", path)["shapes"]}
        self.assertLessEqual(42, sum(classes.get(name, 0) for name in ("ephemeron", "weak array")), classes)

    def test_what_has_come_since(self):
        target, daemon = self.attached("heap_shapes")
        self.stepping(target, daemon)
        self.take_while_stepping(target, daemon)
        earlier = (self.folder / "a.heap").rename(self.folder / "earlier.heap")
        self.take_while_stepping(target, daemon)
        later = self.folder / "a.heap"
        diff = self.ask("diff", earlier, later)
        self.assertTrue(diff["same_process"])
        before, after = (self.ask("show", path)["heap"]["reachable"]["bytes"] for path in (earlier, later))
        self.assertEqual(after - before, diff["heap"][0]["change_bytes"])


class CaseStudies(Snapshot):
    """Programs like those of the thesis on ocp-memprof, explained by a snapshot."""

    programs = harness.TARGETS
    ask = Reading.ask

    def retained(self, case):
        """Share of all reachable memory that each root keeps, by its full name."""
        target, daemon = self.attached("case_studies")
        self.stepping(target, daemon, "work")
        target.command(f"begin {case}")
        self.assertEqual(0, self.take_while(daemon, lambda: target.command("work")).wait())
        answer = self.ask("retained", self.folder / "a.heap")
        shares = {}

        def note(rows, above):
            for row in rows:
                name = f"{above} / {row['name']}" if above else row["name"]
                shares[name] = row["bytes"] / answer["reachable"]["bytes"]
                note(row["children"], name)
        note(answer["roots"], "")
        return shares

    def test_a_parsers_environment_keeps_the_last_tree(self):
        self.assertGreater(self.retained("parser")["globals / Stdlib__Parsing"], 0.9)

    def test_finalisers_keep_what_they_are_to_free(self):
        self.assertGreater(self.retained("finalisers")["finalisers"], 0.8)

    def test_a_renaming_table_is_never_emptied(self):
        shares = self.retained("renaming")
        self.assertGreater(max(share for name, share in shares.items()
                               if re.fullmatch(r"globals / Case_studies / field \d+", name)), 0.9, shares)


class CaseStudies5(CaseStudies):
    programs = TARGETS5


class HungTypes(Snapshot):
    """A compiler file whose reads never end: answers do without it."""

    programs = harness.TARGETS

    def compiler_file(self):
        """The file of demo_server from the machine's OCaml or from
        tests/targets/compile-with.sh."""
        return next(path for path in (self.programs / "obj/demo_server.cmt", self.programs / "demo_server-types/demo_server.cmt")
                    if path.exists())

    def test_it_is_waited_for_only_so_long(self):
        mount, types = self.folder / "mount", self.folder / "types/demo_server.cmt"
        mount.mkdir()
        types.parent.mkdir()
        types.touch()
        server = self.process(Process([harness.ROOT / "tests/hostile/fuse_hang.py", "--async", mount,
                                       self.compiler_file()]))
        self.assertRegex(server.read_line(), "^ready ")
        self.addCleanup(server.kill)
        subprocess.run(["mount", "--bind", mount / "page", types], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", types], check=True)
        target = self.target("demo_server", "--self-load", "2", folder=self.programs)
        daemon = self.daemon("--pid", target.pid, "--snapshot.cmt", types, rate=1e-3)
        daemon.wait_state(target.pid, "sampling")
        pb, ask = self.heaps(daemon)
        request = pb.DescribeHeapRequest(pid=target.pid, max_pause_seconds=10)
        heap = ask("DescribeHeap", request, pb.DescribeHeapResponse)
        self.assertTrue(heap.census.types.out_of_time)
        self.assertGreater(heap.census.heap.reachable.blocks, 1000, "the rest is told")
        server.send("answer")
        heap = ask("DescribeHeap", request, pb.DescribeHeapResponse)
        self.assertFalse(heap.census.types.out_of_time)
        self.assertGreater(heap.census.types.modules, 0)


class Garbage(Snapshot):
    def sampled(self):
        target, daemon = self.attached("leftovers")
        self.stepping(target, daemon, "tick")
        return target, daemon

    def wait_until_seen(self, target, daemon):
        """memprofd has read the collector's state again."""
        def looked():
            return daemon.metrics().value("memprofd_snapshot_timestamp_seconds", pid=str(target.pid))
        before = looked()
        eventually(lambda: looked() > before, "memprofd looks again")

    def answer(self, target, daemon):
        """Waiting orders, and the times at which the snapshot began and ended."""
        began = time.monotonic()
        taker = self.take_while(daemon, lambda: target.command("tick"))
        ended = time.monotonic()
        self.assertEqual(0, taker.wait(), taker.stderr())
        path = self.folder / "a.heap"
        told = json.loads(harness.memprofctl("snapshot", "garbage", path, "-o", "json").stdout)
        self.assertIn("AGE P50", harness.memprofctl("snapshot", "garbage", path).stdout)
        [orders] = [site for site in told["sites"] if "make_order" in site["name"]] or [None]
        return told, orders, began, ended

    def answer_long_after(self, target, daemon, looking, dropped):
        """Asks so late that neither half of the real waiting time nor twice of it can be right."""
        while True:
            told, orders, began, ended = self.answer(target, daemon)
            if began - dropped > ended - began + dropped - looking:
                return told, orders, began, ended
            self.wait_until_seen(target, daemon)

    def test_how_old_it_is_and_how_long_it_has_waited_at_most(self):
        target, daemon = self.sampled()
        making = time.monotonic()
        target.command("make")
        made = time.monotonic()
        for _ in range(2):
            looking = time.monotonic()
            for _ in range(2):  # the second read began after it
                self.wait_until_seen(target, daemon)
            target.command("full")
            target.command("full")
        target.command("drop")
        dropped = time.monotonic()
        told, orders, began, ended = self.answer_long_after(target, daemon, looking, dropped)
        self.assertGreater(orders["sampled_blocks"], 50)
        self.assertAlmostEqual(20_000 * 9 * 8, orders["bytes"], delta=6 * orders["bytes_stderr"])
        self.assertLessEqual(20_000, told["garbage"]["blocks"])
        for age in orders["ages"].values():
            self.assertLess(began - made, age)
            self.assertLess(age, ended - making)
        self.assertLess(began - dropped, orders["longest_wait_seconds"])
        self.assertLess(orders["longest_wait_seconds"], ended - looking, "the last look before these collections")
        self.assertLess(orders["longest_wait_seconds"], orders["ages"]["p50_seconds"])
        self.assertEqual(told["longest_wait_seconds"], orders["longest_wait_seconds"])
        rows = json.loads(harness.memprofctl("snapshot", "query", self.folder / "a.heap", "-o", "json",
                                             "SELECT min(age_seconds), max(age_seconds), max(longest_wait_seconds) FROM samples "
                                             "JOIN sites USING (site) WHERE function LIKE '%make_order'").stdout)["rows"]
        self.assertEqual(orders["longest_wait_seconds"], rows[0][2])
        self.assertEqual(orders["ages"]["longest_seconds"], rows[0][1])

    def dropped_while_a_collection_ran(self, target, daemon):
        """Orders that waited, unless found; time of the snapshot's begin and of the drop."""
        target.command("make")
        self.wait_until_seen(target, daemon)
        target.command("begin")
        target.command("drop")
        dropped = time.monotonic()
        for _ in range(4):  # longer than a snapshot takes
            self.wait_until_seen(target, daemon)
        target.command("major")
        _, orders, began, _ = self.answer(target, daemon)
        return orders and (orders, began, dropped)

    def test_a_collection_leaves_what_was_dropped_while_it_ran(self):
        """The reported wait may then cover the whole collection before the last finished one."""
        target, daemon = self.sampled()
        self.wait_until_seen(target, daemon)
        target.command("full")
        found = self.dropped_while_a_collection_ran(target, daemon)
        if self.programs != TARGETS5:  # OCaml 4 marks what is let go of, if it has begun to mark
            found = found or eventually(lambda: self.dropped_while_a_collection_ran(target, daemon), "it is left",
                                        timeout=3 * harness.TIMEOUT)
        if found:
            orders, began, dropped = found
            self.assertLess(began - dropped, orders["longest_wait_seconds"])


class Garbage5(Garbage):
    programs = TARGETS5


class Reading5(Reading):
    programs = TARGETS5
    outside = {**Reading.outside, "custom _mutex": 80}
    channels = 3 * 65536 + 432


if __name__ == "__main__":
    unittest.main()
