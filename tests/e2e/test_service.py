# SPDX-License-Identifier: Apache-2.0
"""memprofd as a service: whatever its clients do, it ends soon, detaches programs, and answers
others."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import pty
import random
import re
import shutil
import signal
import subprocess
import time

import harness
from api import post
from containers import ControlGroup
from harness import E2ETest, Process, eventually, http_get, proc_status, settled
from injected_agent import agent_process, agent_state
from stepping import SteppedDaemon
from terminal import take_terminal

STOPS_WITHIN = 5  # seconds, all targets detached
RATE = 1e-2
# Hash of "s3cret".
HASH = "$2b$04$abcdefghijklmnopqrstuuLZYjhNQAOdpbzt4WxWlUHjv1wsyH5DG"


def waits_unread(socket):
    """Bytes that clients of a Unix socket have not read."""
    said = subprocess.run(["ss", "-xHn"], capture_output=True, text=True, check=True).stdout
    # Netid State Recv-Q Send-Q Local ...: Send-Q of the server's end is its unread output.
    return sum(int(line.split()[3]) for line in said.splitlines() if str(socket) in line)


class ClientsThatDoNotRead(E2ETest):
    def frozen_client(self, daemon, target, wake="stat"):
        """A stopped client of a stream of the target's events, after the stream has begun."""
        client = self.process(Process([harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "events", "--pid",
                                       target.pid, "-o", "json"]))
        eventually(lambda: target.command(wake) and client.output, "the client is told of events")
        client.send_signal(signal.SIGSTOP)
        eventually(lambda: proc_status(client.pid, "State").startswith("T"), "the client is stopped")
        return client

    def test_do_not_hold_up_the_end(self):
        target, expected = self.busy_target(harness.RESTING_PROGRAM)
        daemon = self.daemon("--pid", target.pid, rate=RATE)
        daemon.wait_state(target.pid, "sampling")
        self.frozen_client(daemon, target)
        self.assertGreater(settled(lambda: waits_unread(daemon.socket) // 4096, "what the client does not read"), 0)
        began = time.monotonic()
        self.assertEqual(0, daemon.stop())
        self.assertLess(time.monotonic() - began, STOPS_WITHIN)
        self.assertIn("SIGTERM: detaching", daemon.stderr())
        self.assertFalse(daemon.socket.exists())
        next_one = self.daemon("--pid", target.pid)
        next_one.wait_state(target.pid, "sampling")
        self.assert_same_output(target, expected)

    def test_are_cut_off(self):
        """Clients are disconnected once more is pending than the connection buffers; the program is
        idle then."""
        target = self.target("known_alloc")
        daemon = self.daemon("--pid", target.pid, rate=RATE)
        self.sample_on_command(daemon, target)
        self.frozen_client(daemon, target, wake="go 1")
        target.command("go 1")
        eventually(lambda: "has not read for 30 s" in daemon.stderr(), "the client is cut off", timeout=120)
        self.assertEqual("sampling", daemon.state(target.pid))
        target.command("go 1")


class Signals(E2ETest):
    def test_hangup_reads_the_web_config_anew(self):
        target = self.target("busy_threads")
        config = self.folder / "web.yml"
        config.write_text("")
        daemon = self.daemon("--pid", target.pid, "--web.config.file", config)
        daemon.wait_state(target.pid, "sampling")
        self.assertEqual(200, http_get(daemon.url + "/metrics")[0])
        config.write_text(f"basic_auth_users:\n  alice: {HASH}\n")
        daemon.send_signal(signal.SIGHUP)
        eventually(lambda: "reloading the web configuration" in daemon.stderr(), "the web config is read anew")
        self.assertEqual(401, http_get(daemon.url + "/metrics")[0])
        config.write_text("nonsense: 1\n")
        daemon.send_signal(signal.SIGHUP)
        eventually(lambda: "nonsense is not supported" in daemon.stderr(), "the bad file is told")
        self.assertEqual(401, http_get(daemon.url + "/metrics")[0])
        self.assertEqual(200, http_get(daemon.url + "/-/healthy")[0])
        self.assertEqual("sampling", daemon.state(target.pid))
        self.assertEqual(0, daemon.stop())

    def told_to_end_while_it_cannot(self, *numbers):
        """Signals arrive while its control thread is held until the end of the test."""
        target = self.target("busy_threads")
        daemon = self.process(SteppedDaemon(self.folder, "--pid", target.pid))
        daemon.wait_state(target.pid, "sampling")
        self.hold_control(daemon)
        for number in numbers:
            os.kill(daemon.memprofd_pid, number)
        eventually(lambda: ": detaching" in daemon.said(), "it is told")
        return daemon, target

    @staticmethod
    def hold_control(daemon):
        """Holds the control thread in repeated requests for a target's memory."""
        for _ in range(1000):
            daemon.stop_at(1, "sendmsg")
            thread = daemon.held(timeout=harness.TIMEOUT)[-1]
            name = pathlib.Path(f"/proc/{daemon.memprofd_pid}/task/{thread}/comm")
            if name.exists() and name.read_text() == "control\n":  # or the thread reading memory
                                                                   # for it
                return
            daemon.go()
        raise AssertionError("the control thread asks nothing")

    def test_a_second_one_ends_it_at_once_and_harms_nobody(self):
        daemon, target = self.told_to_end_while_it_cannot(signal.SIGTERM)

        def ended():
            if daemon.running():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(daemon.memprofd_pid, signal.SIGINT)
            return not daemon.running()
        eventually(ended, "it ends")
        self.assertEqual(harness.INTERNAL, daemon.wait())
        self.assertIn("SIGINT again: ending at once", daemon.said())
        self.assertIn("ending before all programs are detached; agents stop by themselves", daemon.said())
        eventually(lambda: agent_state(target.pid) == agent_process.IDLE, "the agent stops by itself", timeout=60)
        next_one = self.daemon("--pid", target.pid)
        next_one.wait_state(target.pid, "sampling")
        self.assert_works_on(target)

    def test_those_that_come_together_are_one(self):
        """timeout(1) sends its signal to the process and to its group."""
        daemon, target = self.told_to_end_while_it_cannot(signal.SIGINT, signal.SIGTERM)
        daemon.go()
        daemon.send("off")
        self.assertEqual(harness.OK, daemon.wait())
        self.assertIn("memprofd stops", daemon.said())
        self.assertNotIn("again", daemon.said())
        self.assert_works_on(target)

    def on_a_terminal(self, target, *prefix):
        """memprofd in a session on a terminal: (process, terminal)."""
        master, slave = pty.openpty()
        folder = self.folder / f"terminal-{master}"
        folder.mkdir()
        stderr = open(folder / "stderr", "wb")
        daemon = subprocess.Popen(
            [*prefix, harness.BUILD / "memprofd", "--pid", str(target.pid), "--grpc.socket", folder / "socket",
             "--web.listen-address", "127.0.0.1:0"],
            stdin=slave, stdout=slave, stderr=stderr, start_new_session=True, cwd=folder, preexec_fn=take_terminal)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        stderr.close()
        os.close(slave)
        said = lambda: (folder / "stderr").read_text()
        ctl = lambda: subprocess.run([harness.BUILD / "memprofctl", "--grpc.socket", folder / "socket", "targets"],
                                     capture_output=True, text=True).stdout
        eventually(lambda: "sampling" in ctl(), "the target is sampled")
        return daemon, master, said, ctl

    def test_a_terminal_that_closes_ends_it(self):
        target = self.target("busy_threads")
        daemon, terminal, said, _ = self.on_a_terminal(target)
        daemon.send_signal(signal.SIGHUP)
        eventually(lambda: "reloading the web configuration" in said(), "with its terminal open, a hang-up reloads")
        os.close(terminal)
        self.assertEqual(0, daemon.wait(60))
        self.assertIn("the terminal was closed: detaching", said())
        self.assert_works_on(target)

    def test_nohup_outlives_its_terminal(self):
        target = self.target("busy_threads")
        daemon, terminal, said, ctl = self.on_a_terminal(target, "nohup")
        os.close(terminal)
        eventually(lambda: "reloading the web configuration" in said(), "the hang-up reloads")
        self.assertIn("sampling", ctl())
        daemon.terminate()
        self.assertEqual(0, daemon.wait(60))


class ManyPrograms(E2ETest):
    PROGRAMS = 300 if harness.MATRIX or harness.TIMES else 60
    LET_GO_WITHIN = 10  # seconds, if nothing else uses the processors
    PATIENCE = 600

    def sampled(self):
        daemon = self.daemon("--web.enable-control")
        targets = [self.target("known_alloc") for _ in range(self.PROGRAMS)]
        with concurrent.futures.ThreadPoolExecutor(6) as asking:
            answered = list(asking.map(lambda target: post(daemon, "attach", pid=target.pid), targets))
        self.assertEqual([], [text for status, text in answered if status != 200])

        def all_sampled():
            for target in targets:
                target.command("minor")
            states = json.loads(http_get(daemon.url + "/api/v1/targets")[1])["targets"]
            return [target["state"] for target in states] == ["TARGET_STATE_SAMPLING"] * self.PROGRAMS
        eventually(all_sampled, "all are sampled", timeout=self.PATIENCE)
        return daemon, targets

    def test_all_of_them_are_let_go_of(self):
        daemon, targets = self.sampled()
        began = time.monotonic()
        self.assertEqual(0, daemon.stop(timeout=self.PATIENCE))
        harness.check_time(self, f"the end with {self.PROGRAMS} programs", 1000 * (time.monotonic() - began),
                           1000 * self.LET_GO_WITHIN)
        for target in targets:
            self.assertIn(f"pid {target.pid}: memprofd stops", daemon.said())
            eventually(lambda: target.command("go 1") and agent_state(target.pid) == agent_process.IDLE, "its agent rests")
        self.assertEqual([], [line for line in daemon.stderr().splitlines() if "level=warning" in line])


class WhoMayDoWhat(E2ETest):
    """On the Unix socket root may do everything, others only control their own programs; each
    request is logged."""

    NOBODY = 65534

    AS_NOBODY = ("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups")

    def asking_as_nobody(self, daemon, *command):
        return self.process(Process([*self.AS_NOBODY, harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, *command]))

    def ctl_as_nobody(self, daemon, *command):
        asking = self.asking_as_nobody(daemon, *command)
        return asking.wait(), asking.stderr()

    def reachable(self, *options):
        return self.open_to_nobody(self.daemon(*options))

    def open_to_nobody(self, daemon):
        self.folder.chmod(0o755)
        os.chown(daemon.socket, 0, self.NOBODY)
        return daemon

    def test_users_control_their_own_programs(self):
        daemon = self.reachable()
        roots = self.target("busy_threads")
        own = self.process(Process([*self.AS_NOBODY, harness.TARGETS / "busy_threads"]))
        own.read_line()
        code, said = self.ctl_as_nobody(daemon, "attach", "--pid", roots.pid)
        self.assertEqual(harness.PRIVILEGES, code, said)
        self.assert_one_line(said, roots.pid, f"not a program of user {self.NOBODY}", "--grpc.group-controls")
        code, said = self.ctl_as_nobody(daemon, "attach", "--pid", own.pid)
        self.assertEqual(0, code, said)
        daemon.attach(roots.pid)
        self.assertEqual(0, self.ctl_as_nobody(daemon, "targets")[0])
        self.assertEqual(harness.PRIVILEGES, self.ctl_as_nobody(daemon, "detach", "--pid", roots.pid)[0])
        self.assertEqual(harness.PRIVILEGES, self.ctl_as_nobody(daemon, "rate", "--pid", roots.pid, "1")[0])
        self.assertEqual(0, self.ctl_as_nobody(daemon, "detach", "--pid", own.pid)[0])
        log = daemon.stderr()
        self.assertRegex(log, rf"level=warning pid={roots.pid} msg=.pid {roots.pid}: attach \(default rate\) by "
                              rf"user {self.NOBODY}, process \d+: refused: ")
        self.assertRegex(log, rf"level=info pid={own.pid} msg=.pid {own.pid}: detach by user {self.NOBODY}, "
                              r"process \d+: done")
        self.assertRegex(log, rf"level=info pid={roots.pid} .*attach \(default rate\) by user 0, process \d+: done")

    def test_a_program_that_is_roots_by_then(self):
        """Between the check of its owner and the inspection, the pid goes to another user's
        process."""
        daemon = self.open_to_nobody(self.process(SteppedDaemon(self.folder)))
        own = self.process(Process([*self.AS_NOBODY, harness.TARGETS / "busy_threads"]))
        own.read_line()
        daemon.stop_at(1, "pidfd_open")
        asking = self.asking_as_nobody(daemon, "attach", "--pid", own.pid)
        self.assertTrue(daemon.held(timeout=harness.TIMEOUT))
        own.kill()
        roots = self.process_with_pid(own.pid, harness.TARGETS / "busy_threads")
        roots.read_line()
        daemon.go()
        self.assertEqual(harness.NOT_PROFILABLE, asking.wait(), asking.stderr())
        self.assert_one_line(asking.stderr(), roots.pid, "now another program")
        daemon.off()
        self.assertNotIn("memprof_agent", "".join(harness.mappings(roots.pid)))
        code, said = self.ctl_as_nobody(daemon, "attach", "--pid", 4194303)
        self.assertEqual(harness.NO_PROCESS, code, said)

    def test_a_group_may_be_trusted(self):
        daemon = self.reachable("--grpc.group-controls")
        roots = self.target("busy_threads")
        code, said = self.ctl_as_nobody(daemon, "attach", "--pid", roots.pid)
        self.assertEqual(0, code, said)

    def test_the_journal_gets_priorities(self):
        """If stderr is the journal; a file that inherits the variable gets lines without
        priorities."""
        as_service = ("sh", "-c", 'JOURNAL_STREAM=$(stat -L -c %d:%i /dev/stderr) exec "$@"', "sh")
        for starter, prefix in ((as_service, "<4>"), (("env", "JOURNAL_STREAM=8:1"), "")):
            daemon = self.daemon("--log.format", "json", prefix=starter)
            daemon.attach(4194303, check=False)
            refused = [line for line in daemon.stderr().splitlines() if "attach" in line]
            self.assertEqual(1, len(refused))
            self.assertTrue(refused[0].startswith(prefix + "{"), refused)
            fields = json.loads(refused[0].removeprefix(prefix))
            self.assertEqual(("warning", 4194303), (fields["level"], fields["pid"]))
            daemon.stop()

    def test_what_grpc_says_is_in_the_log(self):
        """gRPC's messages appear as log lines, only at the most detailed level."""
        talkative = ("env", "GRPC_VERBOSITY=DEBUG", "GRPC_TRACE=http")
        for level in ("debug", "info"):
            daemon = self.daemon("--log.format", "json", "--log.level", level, prefix=talkative)
            daemon.targets()
            daemon.stop()
            lines = [json.loads(line) for line in daemon.stderr().splitlines()]
            of_grpc = [line for line in lines if line["msg"].startswith("gRPC: ")]
            self.assertEqual(level == "debug", bool(of_grpc))
            self.assertLessEqual({line["level"] for line in of_grpc}, {"debug"})


class Upgrades(E2ETest):
    """Programs that hold agents of other builds until they end."""

    FOLDER = harness.TARGETS

    def samples(self, daemon, pid):
        return daemon.metrics().value("memprofd_samples_total", pid=pid, event="alloc")

    def check_sampled(self, daemon, pid):
        daemon.wait_state(pid, "sampling")
        self.assertEqual("agent", daemon.targets()[pid]["mode"])
        before = self.samples(daemon, pid)
        eventually(lambda: self.samples(daemon, pid) > before, "samples")

    def holds_old_agent(self):
        agent = harness.agent_of_another_build(self.folder)
        return self.target("busy_threads", env=dict(os.environ, LD_PRELOAD=str(agent)), folder=self.FOLDER), agent

    def test_a_newer_agent_beside_a_preloaded_one(self):
        target, _ = self.holds_old_agent()
        daemon = self.daemon(rate=1e-3)
        said = daemon.ctl("doctor", "--pid", target.pid, check=False).stdout
        self.assertIn("agent, by injection", said)
        for _ in range(2):
            daemon.attach(target.pid)
            self.check_sampled(daemon, target.pid)
            daemon.detach(target.pid)
        self.assertIn("agent, already loaded", daemon.ctl("doctor", "--pid", target.pid, check=False).stdout)
        self.assertEqual(0, target.exit()["errors"])

    def test_an_upgrade_under_the_same_name(self):
        """After two upgrades the program has three agents, two of other builds."""
        target = self.target("busy_threads", folder=self.FOLDER)
        agent = self.folder / "installed.so"
        for build in (4, 5, None):
            fresh = self.folder / "fresh"
            fresh.write_bytes((harness.BUILD / "libmemprof_agent.so").read_bytes())
            fresh.rename(agent)
            daemon = self.daemon("--pid", target.pid, agent=agent, rate=1e-3)
            self.check_sampled(daemon, target.pid)
            daemon.stop()
            if build is not None:
                self.assertEqual(1, harness.make_agent_old(target.pid, build))
        self.assertEqual(0, target.exit()["errors"])

    def test_what_cannot_get_another_one_is_observed(self):
        target, _ = self.holds_old_agent()
        daemon = self.daemon()
        refused = daemon.ctl("attach", "--pid", target.pid, "--no-inject", "--mode", "agent", check=False)
        self.assertEqual(harness.NOT_PROFILABLE, refused.returncode)
        self.assert_one_line(refused.stderr, target.pid, "no agent of this build", "injection")
        said = daemon.ctl("attach", "--pid", target.pid, "--no-inject").stdout
        self.assert_one_line(said, target.pid, "observe mode")
        self.assertEqual(0, target.exit()["errors"])

    def test_one_that_another_memprofd_listens_to_is_left_alone(self):
        target, agent = self.holds_old_agent()
        self.raise_semaphore(target.pid, agent)
        daemon = self.daemon()
        said = daemon.attach(target.pid).stdout
        self.assert_one_line(said, target.pid, "observe mode", "another build (interface 99", "end that one")
        self.assertEqual(0, target.exit()["errors"])

    def raise_semaphore(self, pid, agent):
        notes = subprocess.run(["readelf", "-n", agent], capture_output=True, text=True, check=True).stdout
        semaphore = int(re.search(r"Semaphore: 0x([0-9a-f]+)", notes).group(1), 16)
        base = next(int(line.split("-")[0], 16) for line in harness.mappings(pid) if line.endswith(str(agent)))
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            os.pwrite(memory.fileno(), (1).to_bytes(2, "little"), base + semaphore)


class UpgradesOfOcaml5(Upgrades):
    """On OCaml 5 a newer agent once got no samples while the old one had not detected the end of
    its session."""

    FOLDER = harness.TARGETS5

    def check_observed(self, daemon, pid):
        daemon.wait_state(pid, "sampling")
        self.assertEqual("observe", daemon.targets()[pid]["mode"])
        self.assertIn("another build", daemon.targets()[pid]["message"])

    def test_a_newer_agent_beside_a_preloaded_one(self):
        target, _ = self.holds_old_agent()
        daemon = self.daemon(rate=1e-3)
        daemon.attach(target.pid)
        self.check_observed(daemon, target.pid)
        self.assertEqual(0, target.exit()["errors"])

    def test_an_upgrade_under_the_same_name(self):
        target = self.target("busy_threads", folder=self.FOLDER)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        self.check_sampled(daemon, target.pid)
        daemon.stop()
        self.assertEqual(1, harness.make_agent_old(target.pid, 4))
        self.check_observed(self.daemon("--pid", target.pid, rate=1e-3), target.pid)
        self.assertEqual(0, target.exit()["errors"])

    def test_what_cannot_get_another_one_is_observed(self):
        target, _ = self.holds_old_agent()
        daemon = self.daemon()
        refused = daemon.ctl("attach", "--pid", target.pid, "--mode", "agent", check=False)
        self.assertEqual(harness.NOT_PROFILABLE, refused.returncode)
        self.assert_one_line(refused.stderr, target.pid, "another build", "restart the program")
        self.assertEqual(0, target.exit()["errors"])


class Discovery(E2ETest):
    """--name profiles programs as they start, without an attach."""

    def setUp(self):
        super().setUp()
        # A name that no other test's programs have.
        self.name = self.folder.name + "-shop"
        self.copy(harness.TARGETS / "busy_threads", self.name)

    def copy(self, program, name):
        return shutil.copy(program, self.folder / name)

    def shop(self):
        return self.target(self.name, folder=self.folder)

    def watching(self, *names, **options):
        more = [option for name in names for option in ("--name", name)]
        return self.daemon(*more, *options.pop("more", ()), rate=1e-3, **options)

    def test_what_runs_and_what_starts_later(self):
        first, other = self.shop(), self.target("known_alloc")
        glob = self.name[:-2] + "*"
        daemon = self.watching(glob)
        daemon.wait_state(first.pid, "sampling")
        later = self.shop()
        daemon.wait_state(later.pid, "sampling")
        self.assertNotIn(other.pid, daemon.targets())
        eventually(lambda: f"pid {later.pid}: attached to, by --name {glob}" in daemon.stderr(), "it is said why")
        self.assert_works_on(first)

    def test_a_path_and_a_shell_that_becomes_the_program(self):
        daemon = self.watching(f"{self.folder}/*-shop")
        shell = self.process(Process(["sh", "-c", f"read line; exec {self.folder}/{self.name}"]))
        known = self.shop()
        daemon.wait_state(known.pid, "sampling")
        self.assertNotIn(shell.pid, daemon.targets())
        shell.send("go")
        self.assertEqual(f"ready {shell.pid}", shell.read_line())
        daemon.wait_state(shell.pid, "sampling")

    def test_what_was_detached_stays_so(self):
        first = self.shop()
        daemon = self.watching(self.name, more=("--state.directory", self.folder / "state"))
        daemon.wait_state(first.pid, "sampling")
        daemon.detach(first.pid)
        second = self.shop()
        daemon.wait_state(second.pid, "sampling")
        self.assertEqual("detached", daemon.state(first.pid))
        daemon.stop()
        daemon = self.watching(self.name, more=("--state.directory", self.folder / "state"))
        daemon.wait_state(second.pid, "sampling")
        third = self.shop()
        daemon.wait_state(third.pid, "sampling")
        self.assertEqual("detached", daemon.state(first.pid))

    def test_the_unit_that_a_program_belongs_to_is_told(self):
        target = self.shop()
        group = ControlGroup("systemd", suffix=".service")
        self.addCleanup(group.remove)
        self.addCleanup(target.kill)
        group.put(target.pid)
        daemon = self.watching(self.name)
        daemon.wait_state(target.pid, "sampling")
        unit = group.folder.name
        self.assertEqual((unit, ""), tuple(daemon.targets()[target.pid][key] for key in ("unit", "container")))
        (info,) = daemon.metrics().find("memprofd_target_info", pid=target.pid)
        self.assertEqual((unit, self.name), (info.labels["unit"], info.labels["program"]))

    def test_what_cannot_be_profiled_is_said_once(self):
        name = self.folder.name + "-sleep"
        sleeper = self.process(Process([self.copy(shutil.which("sleep"), name), "infinity"]))
        daemon = self.watching(name)
        said = f"pid {sleeper.pid}: matches --name {name} but was skipped: "
        eventually(lambda: said in daemon.stderr(), "it is skipped", timeout=60)
        self.assertEqual(1, daemon.stderr().count(f"pid {sleeper.pid}: matches"))
        self.assertEqual("not_ocaml", self.outcome(daemon, sleeper.pid))
        self.assertEqual(0, daemon.stop())

    @staticmethod
    def found(daemon, pid):
        answer = json.loads(daemon.ctl("targets", "--all", "-o", "json").stdout)
        return next((one for one in answer["discovered"] if one["pid"] == pid), None)

    def outcome(self, daemon, pid):
        found = self.found(daemon, pid)
        return found and found["outcome"].removeprefix("DISCOVERY_OUTCOME_").lower()

    def test_all_programs_are_listed_with_the_reason(self):
        """Programs without a rule and those that cannot be profiled are listed; metrics count
        them."""
        shop, other, detached = self.shop(), self.target("known_alloc"), self.shop()
        bytecode = self.target("bytecode_target")
        stripped = self.target("static_target")
        loader = self.process(Process(["/lib64/ld-linux-x86-64.so.2", harness.TARGETS / "busy_threads"]))
        sleeper = self.process(Process(["sleep", "infinity"]))
        daemon = self.watching(self.name)
        for target in (shop, detached):
            daemon.wait_state(target.pid, "sampling")
        daemon.detach(detached.pid)
        expected = {shop.pid: "profiled", other.pid: "no_rule", detached.pid: "detached", bytecode.pid: "bytecode",
                    stripped.pid: "no_symbols", loader.pid: "ld_so", sleeper.pid: None}
        for pid, outcome in expected.items():
            with self.subTest(outcome=outcome):
                eventually(lambda pid=pid, outcome=outcome: self.outcome(daemon, pid) == outcome,
                           f"pid {pid} is {outcome}, not {self.found(daemon, pid)}")
        self.assertEqual(self.name, self.found(daemon, shop.pid)["rule"])
        self.assertIn("ocamlopt", self.found(daemon, bytecode.pid)["reason"])
        table = daemon.ctl("targets", "--all").stdout
        self.assertRegex(table, rf"(?m)^ *{other.pid} +known_alloc +no rule ")
        self.assertIn(f"rules       --name {self.name}\n", daemon.ctl("info").stdout)
        answer = json.loads(harness.http_get(f"{daemon.url}/api/v1/targets?discovered=true")[1])
        self.assertLessEqual({pid for pid, outcome in expected.items() if outcome},
                             {one["pid"] for one in answer["discovered"]})
        counts = {s.labels["outcome"]: s.value for s in daemon.metrics().find("memprofd_discovered_programs")}
        for outcome in filter(None, expected.values()):
            self.assertGreaterEqual(counts[outcome], 1, outcome)
        daemon.attach(other.pid)
        self.assertIn(self.outcome(daemon, other.pid), ("waiting", "profiled"), "it is attached to on request")


class Restarts(E2ETest):
    """With --state.directory the next memprofd continues with the state of the previous one,
    however that ended."""

    ROUNDS = 100 if harness.MATRIX else 2

    def setUp(self):
        super().setUp()
        self.state = self.folder / "state"

    def memprofd(self, *options, **more):
        return self.daemon("--state.directory", self.state, *options, **more)

    def written(self, pid, times=1):
        """Waits until memprofd itself has written the target's file `times` times."""
        file = self.state / f"{pid}.target"
        for _ in range(times):
            before = file.stat().st_mtime_ns if file.exists() else 0
            eventually(lambda: file.exists() and file.stat().st_mtime_ns > before, "the target's file is written")

    def allocated(self, daemon, pid):
        """Allocated bytes in a scrape."""
        return daemon.metrics().total("memprofd_allocated_bytes_total", pid=pid)

    def test_a_fifo_among_its_files(self):
        """memprofd does not wait at a FIFO, and removes it like any unreadable file."""
        self.state.mkdir(mode=0o700)
        os.mkfifo(self.state / "7.target")
        daemon = self.memprofd()
        self.assertEqual([], list(self.state.iterdir()))
        self.assertEqual(0, daemon.stop())

    def test_a_directory_of_another_user(self):
        self.state.mkdir()
        os.chown(self.state, 1000, 1000)
        daemon = self.memprofd(wait=False)
        self.assertEqual(harness.USAGE, daemon.wait())
        self.assert_one_line(daemon.said(), self.state, "user 1000", "--state.directory")

    def test_a_start_that_waits_for_ever_is_ended_by_a_signal(self):
        """Here a FIFO that no process opens on the other side; a name that is never resolved is the
        same."""
        for number in (signal.SIGTERM, signal.SIGINT):
            file = self.folder / f"{number}.yml"
            os.mkfifo(file)
            daemon = self.daemon("--web.config.file", file, wait=False)

            def waits():
                for task in pathlib.Path(f"/proc/{daemon.pid}/task").iterdir():
                    with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # the thread has just ended
                        if "wait_for_partner" in (task / "wchan").read_text():
                            return True
                return False
            eventually(waits, "memprofd waits for the file")
            self.assertEqual(0, daemon.stop(number), daemon.said())
            self.assertIn("ending before all is started", daemon.said())

    def test_killed_at_any_moment(self):
        """Scraped or stored counts never decrease, and nothing counts twice."""
        known, (busy, expected) = self.target("known_alloc"), self.busy_target(harness.RESTING_PROGRAM)
        options = ["--pid", known.pid, "--pid", busy.pid]
        words = lambda answer: answer["minor_words"] + answer["major_words"] - answer["promoted_words"]
        begun_at = words(known.command("stat"))
        at_least = 0
        for round_number in range(self.ROUNDS):
            daemon = self.memprofd(*options, rate=1e-3)
            options = []
            self.sample_on_command(daemon, known)
            daemon.wait_state(busy.pid, "sampling")
            self.assertGreaterEqual(self.allocated(daemon, known.pid), at_least)
            known.command("go 1", timeout=120)
            if round_number % 2 == 0:
                at_least = self.allocated(daemon, known.pid)
                self.assertGreater(at_least, 0)
            else:
                # The sums were added in another order.
                at_least = daemon.targets()[known.pid]["allocated_bytes"] * (1 - 1e-12)
                self.written(known.pid, times=2)
            known.send("go 1")
            time.sleep(random.uniform(0, 5 if harness.MATRIX else 1))
            daemon.kill()
            known.read_line(timeout=120)
        daemon = self.memprofd()
        self.sample_on_command(daemon, known)
        seen = self.allocated(daemon, known.pid)
        self.assertGreaterEqual(seen, at_least)
        truth = words(known.command("stat")) - begun_at
        self.assertLessEqual(seen, truth * 8 + 4 * (truth / 1e-3) ** 0.5 * 8)
        daemon.wait_state(busy.pid, "sampling")
        sites = daemon.sites(busy.pid)
        self.assertTrue(all(site["file"] for site in sites[:5]), sites[:5])
        self.assert_same_output(busy, expected)

    def test_goes_on_as_it_was_asked(self):
        """Rate, budget and every counter continue over a normal restart with other options."""
        target = self.target("known_alloc")
        daemon = self.memprofd(rate=1e-4)
        daemon.ctl("attach", "--pid", target.pid, "--sampling-rate", "2e-3", "--max-overhead", "5%")
        self.sample_on_command(daemon, target)
        daemon.set_rate(target.pid, 1e-3)
        self.sample_on_command(daemon, target)
        target.command("go 2", timeout=120)
        self.settled_alloc_events(daemon, target)
        attached = daemon.targets()[target.pid]["attached_unix_ns"]
        before = daemon.metrics()
        self.assertEqual(0, daemon.stop())
        target.command("go 1", timeout=120)
        daemon = self.memprofd(rate=1e-4)
        self.sample_on_command(daemon, target)
        after = daemon.metrics()
        kinds = {name for name, kind in before.types.items() if kind in ("counter", "histogram")}
        compared = 0
        for sample in before.samples:
            family = re.sub("_(bucket|count|sum)$", "", sample.name)
            if "pid" not in sample.labels or not {sample.name, family} & kinds:
                continue
            if sample.labels.get("function") == "other":
                continue
            now = after.value(sample.name, **sample.labels)
            self.assertGreaterEqual(now, sample.value, (sample.name, sample.labels))
            compared += 1
        self.assertGreater(compared, 30)
        now = daemon.targets()[target.pid]
        self.assertEqual(attached, now["attached_unix_ns"])
        self.assertEqual(0.05, after.value("memprofd_overhead_budget_ratio", pid=target.pid))
        self.assertEqual(1e-3, after.value("memprofd_requested_sampling_rate", pid=target.pid))
        # Earlier live blocks are no longer followed.
        self.assertLess(after.value("memprofd_live_bytes", pid=target.pid),
                        before.value("memprofd_live_bytes", pid=target.pid) / 2)
        daemon.metrics()
        target.command("go 1", timeout=120)
        eventually(lambda: daemon.metrics().value("memprofd_live_bytes", pid=target.pid) > 0,
                   "new blocks are followed")
        self.assertEqual("sampling", daemon.state(target.pid))

    def settled_alloc_events(self, daemon, target):
        settled(lambda: daemon.targets()[target.pid]["alloc_events"], "allocations")

    def test_a_detached_one_stays_detached(self):
        target = self.target("busy_threads")
        daemon = self.memprofd("--pid", target.pid, rate=1e-3)
        daemon.wait_state(target.pid, "sampling")
        self.written(target.pid)
        daemon.detach(target.pid)
        counted = daemon.targets()[target.pid]["alloc_events"]
        daemon.kill()  # the next one has the answered counts
        daemon = self.memprofd()
        now = daemon.targets()[target.pid]
        self.assertEqual(("detached", "detached on request", counted),
                         (now["state"], now["message"], now["alloc_events"]))
        self.assert_works_on(target)
        self.assertEqual(counted, daemon.targets()[target.pid]["alloc_events"])
        daemon.attach(target.pid)
        daemon.wait_state(target.pid, "sampling")

    def test_an_ended_program_is_shown_with_names(self):
        target = self.target("known_alloc")
        daemon = self.memprofd("--pid", target.pid, rate=1e-3)
        self.sample_on_command(daemon, target)
        target.command("go 1", timeout=120)
        before = {(s["function"], s["file"], s["line"]): s["live_bytes"] for s in daemon.settled_sites(target.pid)}
        daemon.kill()
        target.exit()
        daemon = self.memprofd()
        now = daemon.targets()[target.pid]
        self.assertEqual("exited", now["state"])
        self.assertIn("ended while memprofd did not run", now["message"])
        after = {(s["function"], s["file"], s["line"]): s["live_bytes"] for s in daemon.sites(target.pid)}
        self.assertEqual(before, after)
        self.assertIn("known_alloc.ml", "".join(file for _, file, _ in after))

    def test_many_that_end_before_they_are_inspected(self):
        """More than are inspected at once. Zombies still have the start time by which a program is recognized."""
        targets = [self.target("known_alloc") for _ in range(20)]
        daemon = self.memprofd(*(word for target in targets for word in ("--pid", target.pid)))
        eventually(lambda: len(daemon.targets()) == len(targets), "all are attached")
        self.assertEqual(0, daemon.stop())
        for target in targets:
            os.kill(target.pid, signal.SIGKILL)
            eventually(lambda: harness.proc_status(target.pid, "State").startswith("Z"), "it has ended")  # pylint: disable=cell-var-from-loop
        daemon = self.memprofd()
        eventually(lambda: not any(one["state"] == "waiting" for one in daemon.targets().values()), "all were inspected")
        self.assertEqual(0, daemon.stop())

    def test_one_memprofd_has_the_directory(self):
        self.memprofd()
        second = self.memprofd(wait=False)
        self.assertEqual(harness.UNAVAILABLE, second.wait())
        self.assert_one_line(second.stderr(), "another memprofd", self.state, "--state.directory")

    def test_a_full_disk_harms_nothing(self):
        disk = self.folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", disk], check=True)
        self.state = disk / "state"
        self.state.mkdir()
        with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        target, expected = self.busy_target(harness.RESTING_PROGRAM)
        daemon = self.memprofd("--pid", target.pid, rate=1e-4)
        daemon.wait_state(target.pid, "sampling")
        errors = lambda: daemon.metrics().value("memprofd_state_write_errors_total")
        eventually(lambda: errors() >= 2, "errors are counted")
        self.assertEqual(1, daemon.stderr().count("No space left on device; profiling continues"))
        self.assertEqual("sampling", daemon.state(target.pid))
        (disk / "filler").unlink()
        eventually(lambda: "all of it is written again" in daemon.stderr(), "it recovers")
        self.assertGreater(daemon.metrics().value("memprofd_state_bytes"), 0)
        self.assertEqual(0, daemon.stop())
        self.assert_same_output(target, expected)


if __name__ == "__main__":
    import unittest
    unittest.main()
