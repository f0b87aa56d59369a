# SPDX-License-Identifier: Apache-2.0
"""Starts targets, memprofd and memprofctl, and waits for conditions.

Every wait has a deadline and ends as soon as its condition holds; nothing sleeps a fixed time.
Every process is ended by its pid, by the test that started it. Standard library only.

Environment: MEMPROFD_BUILD names the build folder (default: build), MEMPROFD_TARGETS the folder of
the programs to profile, which determines their OCaml (default: the build's targets),
MEMPROFD_MATRIX=1 runs everything that takes long: make test-matrix; MEMPROFD_TIMEOUT is the longest
wait in seconds; MEMPROFD_TIMES=1 checks limits of times: make bench.
"""

import atexit
import contextlib
import dataclasses
import functools
import json
import math
import os
import pathlib
import queue
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
import weakref

import answers
from waiting import TIMEOUT, eventually

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MEMPROFD_BUILD", ROOT / "build")).resolve()
TARGETS = pathlib.Path(os.environ.get("MEMPROFD_TARGETS", BUILD / "targets")).resolve()
ARE_OF_OCAML5 = (TARGETS / "domains").exists()
# Programs of OCaml 4 and of OCaml 5: those of MEMPROFD_TARGETS if they are, else those of Debian 12 and 13.
TARGETS4 = (TARGETS.parent / "targets").resolve() if ARE_OF_OCAML5 else TARGETS
TARGETS5 = TARGETS if ARE_OF_OCAML5 else (TARGETS.parent / "targets-trixie").resolve()
# The program that tests disturb most, with its arguments.
BUSY_PROGRAM = ("domains",) if ARE_OF_OCAML5 else ("busy_threads", "busy")
RESTING_PROGRAM = BUSY_PROGRAM[:1]  # the same with pauses, if it can
MATRIX = os.environ.get("MEMPROFD_MATRIX") == "1"
TIMES = os.environ.get("MEMPROFD_TIMES") == "1"
NOTES = []  # reported by tests/run.py beside the outcome: "200 cycles"

# daemon/util/exit_codes.h
OK, INTERNAL, USAGE, NO_PROCESS, NOT_PROFILABLE, PRIVILEGES, BUSY, AGENT, UNAVAILABLE, LIMIT, OLDER = range(11)

# Reasons for drops that may occur in every session.
EXPECTED_DROPS = {"session_end", "stale_session", "unused_capture", "callstack_moved"}
# On OCaml 5 an agent still reports blocks sampled for the previous memprofd, or before a fork.
DROPS_OF_BEFORE = EXPECTED_DROPS | {"unknown_sample"}


def check_time(test, what, took_ms, limit_ms):
    """Checks a time against its limit in make bench, where nothing else runs; elsewhere only
    reports it."""
    NOTES.append(f"{what}: {took_ms:.0f} ms (at most {limit_ms:.0f})")
    if TIMES:
        test.assertLessEqual(took_ms, limit_ms, what)


def settled(read, what, quiet=1.0, timeout=TIMEOUT):
    """Returns read() once it has returned equal values for `quiet` seconds."""
    deadline = time.monotonic() + timeout
    value, since = read(), time.monotonic()
    while time.monotonic() - since < quiet:
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: still changing after {timeout:g} s; last: {value}")
        time.sleep(quiet / 8)
        again = read()
        if again != value:
            value, since = again, time.monotonic()
    return value


def free_port():
    """A port below those that the kernel assigns to clients, unlikely to be used by a test in
    parallel."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def http_get(url, timeout=5.0):
    """(status, body) of a GET; raises OSError if there is no answer."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


# ---------------------------------------------------------------- processes

STARTED = weakref.WeakSet()


def kill(pid):
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


@atexit.register
def kill_what_was_started():
    """Ends all processes of an interrupted run; tests end their processes themselves."""
    for process in list(STARTED):
        process.kill()


def under_a_filter(refused=()):
    """Script of python3 -c that runs a command under a seccomp filter: it refuses these system calls with EPERM and allows the
    others."""
    checks = [(0x20, 0, 0, 0), *((0x15, len(refused) - i, 0, number) for i, number in enumerate(refused))]
    allow, refuse = (6, 0, 0, 0x7fff0000), (6, 0, 0, 0x00050001)
    code = [*checks, allow, refuse] if refused else [allow]
    return f"""
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in {code}))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", {len(code)}, ctypes.addressof(code)))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"""


UNDER_A_FILTER = under_a_filter()


class Process:
    """A child whose standard output is read line by line in the background."""

    def __init__(self, arguments, cwd=None, env=None, stdin=subprocess.PIPE):
        self.arguments = [str(a) for a in arguments]
        self.log = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.popen = subprocess.Popen(
            self.arguments, stdin=stdin, stdout=subprocess.PIPE, stderr=self.log,
            text=True, errors="replace", cwd=cwd or ROOT, env=env, start_new_session=True)
        self.lines = queue.Queue()
        self.output = []
        threading.Thread(target=self._read, daemon=True).start()
        STARTED.add(self)

    def _read(self):
        for line in self.popen.stdout:
            self.output.append(line)
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    @property
    def pid(self):
        return self.popen.pid

    def name(self):
        return os.path.basename(self.arguments[0])

    def running(self):
        return self.popen.poll() is None

    def stderr(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    def send(self, line):
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()

    def read_line(self, timeout=TIMEOUT):
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"{self.name()} printed nothing for {timeout:g} s") from None
        if line is None:
            raise AssertionError(
                f"{self.name()} ended with {self.popen.wait()}; stderr: {self.stderr()}")
        return line

    def wait(self, timeout=TIMEOUT):
        """Waits for the end; returns the exit code (negative: the signal)."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name()} (pid {self.pid}) did not end in {timeout:g} s") from None

    def send_signal(self, number):
        self.popen.send_signal(number)  # does nothing once the process has been waited for

    def stop(self, number=signal.SIGTERM, timeout=TIMEOUT):
        """Ends the process and returns its exit code."""
        if self.running():
            self.send_signal(number)
        return self.wait(timeout)

    def kill(self):
        """Kills the process; can neither fail nor hang."""
        if self.running():
            self.popen.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(TIMEOUT)
        with contextlib.suppress(OSError):
            self.popen.stdin and self.popen.stdin.close()


class Target(Process):
    """One of the programs of tests/targets, after its "ready" line."""

    def __init__(self, name, *arguments, env=None, folder=None, prefix=()):
        super().__init__([*prefix, (folder or TARGETS) / name, *arguments], env=env)
        words = self.read_line().split()
        if words[0] != "ready":
            raise AssertionError(f"{name} said {words} instead of ready")
        self.port = int(words[1]) if len(words) == 3 else None

    def command(self, line, timeout=TIMEOUT):
        """Sends a command and returns its answer, decoded if it is JSON."""
        self.send(line)
        answer = self.read_line(timeout)
        return json.loads(answer) if answer.startswith("{") else answer

    def work_done(self):
        """Work of busy_threads, steady or domains so far; AssertionError if any of it went
        wrong."""
        answer = self.command("stat")
        if answer.get("errors", 0) != 0:
            raise AssertionError(f"{self.name()} has had errors: {answer}")
        if "requests" in answer:
            return answer["requests"]
        return sum(site["allocated_words"] for site in answer["sites"].values())

    def exit(self, timeout=TIMEOUT):
        """Makes the target end; returns its last answer, if any."""
        self.send("exit")
        code = self.wait(timeout)
        if code != 0:
            raise AssertionError(f"{self.name()} ended with {code}; stderr: {self.stderr()}")
        answer = None
        while (line := self.lines.get(timeout=timeout)) is not None:
            answer = line
        return json.loads(answer) if answer and answer.startswith("{") else answer


@functools.cache
def undisturbed_output(program=BUSY_PROGRAM, folder=None):
    """The busy program's output if it is not profiled."""
    target = Target(*program, folder=folder)
    try:
        eventually(lambda: target.command("stat")["checksums"], "it has computed something")
        return target.exit()["checksums"]
    finally:
        target.kill()


# ---------------------------------------------------------------- metrics


@dataclasses.dataclass(frozen=True)
class Sample:
    name: str
    labels: dict
    value: float


SAMPLE_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \d+)?$")
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"(?:,|$)')


def unescape(text):
    return re.sub(r"\\(.)", lambda m: "\n" if m.group(1) == "n" else m.group(1), text)


class Metrics:
    """Prometheus text format, parsed strictly: an odd line is an error."""

    def __init__(self, text):
        self.text = text
        self.samples = []
        self.types = {}
        for line in filter(None, text.splitlines()):
            self._parse(line)

    def _parse(self, line):
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            self.types[name] = kind
        elif not line.startswith("#"):
            match = SAMPLE_LINE.match(line)
            if not match:
                raise AssertionError(f"not a metrics line: {line!r}")
            name, labels, value = match.groups()
            pairs = {k: unescape(v) for k, v in LABEL.findall(labels or "")}
            self.samples.append(Sample(name, pairs, float(value)))

    def find(self, name, **labels):
        """The samples with these labels; AssertionError if the metric has no such label."""
        wanted = {k: str(v) for k, v in labels.items()}
        named = [s for s in self.samples if s.name == name]
        if named and not all(any(label in s.labels for s in named) for label in wanted):
            raise AssertionError(f"{name} has other labels than {wanted}")
        return [s for s in named if all(s.labels.get(k) == v for k, v in wanted.items())]

    def value(self, name, **labels):
        """The only matching sample's value; AssertionError unless there is exactly one."""
        found = self.find(name, **labels)
        if len(found) != 1:
            raise AssertionError(f"{len(found)} samples of {name}{labels}")
        return found[0].value

    def total(self, name, **labels):
        return sum(s.value for s in self.find(name, **labels))


# ---------------------------------------------------------------- memprofd


class Daemon(Process):
    """A memprofd with its own socket and port."""

    def __init__(self, folder, *arguments, rate=None, port=None, agent=None, wait=True, env=None, prefix=(),
                 usual_budget=False):
        self.port = port or free_port()
        self.socket = pathlib.Path(folder) / f"memprofd-{self.port}.sock"
        self.url = f"http://127.0.0.1:{self.port}"
        command = [*prefix, BUILD / "memprofd", "--web.listen-address", f"127.0.0.1:{self.port}",
                   "--grpc.socket", self.socket, "--log.level", "info"]
        command += ["--agent", agent or BUILD / "libmemprof_agent.so"]
        if rate is not None:
            command += ["--sampling-rate", f"{rate:g}"]
        # Tests that count samples need exactly their rate.
        if "--max-overhead" not in arguments and not usual_budget:
            command += ["--max-overhead", "none"]
        if "--cpu.max" not in arguments and not usual_budget:
            command += ["--cpu.max", "none"]
        super().__init__([*command, *arguments], stdin=subprocess.DEVNULL, env=env)
        if wait:
            self.wait_ready()

    def wait_ready(self):
        def answers():
            if not self.running():
                raise RuntimeError(
                    f"memprofd ended with {self.popen.returncode}: {self.stderr()}{''.join(self.output)}")
            try:
                return http_get(self.url + "/-/ready")[0] == 200
            except OSError:
                return False
        eventually(answers, "memprofd becomes ready")

    def said(self):
        return self.stderr() + "".join(self.output)

    def metrics(self):
        status, text = http_get(self.url + "/metrics", timeout=TIMEOUT)
        if status != 200:
            raise AssertionError(f"/metrics answered {status}")
        return Metrics(text)

    def ctl(self, *arguments, check=True, timeout=TIMEOUT):
        return memprofctl("--grpc.socket", self.socket, *arguments, check=check, timeout=timeout)

    def ctl_json(self, *arguments):
        return answers.answer(self.ctl(*arguments, "-o", "json").stdout)

    def attach(self, pid, rate=None, check=True):
        options = [] if rate is None else ["--sampling-rate", f"{rate:g}"]
        return self.ctl("attach", "--pid", pid, *options, check=check)

    def refusal(self, pid, *options, codes=range(1, 256)):
        """The reason for a refused attach, as printed by memprofctl or, if that first reported that
        the attach waits, in the target's message. codes: possible exit codes of memprofctl."""
        done = self.ctl("attach", "--pid", pid, *options, check=False)
        if done.returncode != OK:
            if done.returncode not in codes:
                raise AssertionError(f"{done.returncode} is not in {codes}: {done.stderr}")
            return done.stderr
        self.wait_state(pid, "failed")
        return self.targets()[pid]["message"]

    def detach(self, pid, check=True):
        return self.ctl("detach", "--pid", pid, check=check)

    def set_rate(self, pid, rate, check=True):
        return self.ctl("rate", "--pid", pid, "--sampling-rate", f"{rate:g}", check=check)

    def targets(self):
        return {t["pid"]: t for t in self.ctl_json("targets")["targets"]}

    def state(self, pid):
        """The target's state over HTTP, which needs no process; most waits use it."""
        with contextlib.suppress(OSError):
            status, text = http_get(self.url + "/api/v1/targets", timeout=TIMEOUT)
            if status == 200:
                states = {t["pid"]: t["state"] for t in json.loads(text)["targets"]}
                return states[pid].removeprefix("TARGET_STATE_").lower() if pid in states else None
        return self.targets().get(pid, {}).get("state")

    def wait_state(self, pid, *states, timeout=TIMEOUT):
        return eventually(lambda: self.state(pid) in states, f"pid {pid} is {' or '.join(states)}",
                          timeout=timeout)

    def sites(self, pid):
        return self.ctl_json("sites", "--pid", pid)["sites"]

    def settled_sites(self, pid):
        """Sites after the last event has arrived; the target must be idle."""
        def events():
            metrics = self.metrics()
            return [metrics.total("memprofd_samples_total", pid=pid, event=e)
                    for e in ("alloc", "promote", "dealloc")]
        settled(events, "sample counts")
        return self.sites(pid)


def memprofctl(*arguments, check=True, timeout=TIMEOUT):
    command = [str(a) for a in (BUILD / "memprofctl", *arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}{done.stdout}")
    return done


# ---------------------------------------------------------------- tests


def agent_build():
    """The ABI version of the built agent."""
    text = (ROOT / "agent-lib/include/memprof_agent_abi.h").read_text()
    return int(re.search(r"define MEMPROF_AGENT_ABI (\d+)u", text).group(1))


def mappings(pid):
    return pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()


def make_agent_old(pid, build):
    """Makes this build's agents in the process report another build. Returns their number."""
    ours, found = b"MRPMagnt" + agent_build().to_bytes(4, "little"), 0
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for line in mappings(pid):
            if " rw-p " not in line or not re.search(r"memprof_agent|installed\.so", line):
                continue
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
            at = os.pread(memory.fileno(), end - begin, begin).find(ours)
            if at >= 0:
                os.pwrite(memory.fileno(), build.to_bytes(4, "little"), begin + at + 8)
                found += 1
    return found


def agent_of_another_build(folder, build=99):
    """A copy of the agent whose control block names another ABI version."""
    data = bytearray((BUILD / "libmemprof_agent.so").read_bytes())
    places = [m.start() for m in re.finditer(rb"MRPMagnt", data)]
    if len(places) != 1:
        raise AssertionError(f"the agent's magic is in {len(places)} places")
    data[places[0] + 8:places[0] + 12] = build.to_bytes(4, "little")
    path = folder / "libmemprof_agent.so"
    path.write_bytes(data)
    path.chmod(0o755)
    return path


def sites_of(sites, function):
    """The sites whose function is `function` in any module."""
    return [s for s in sites if re.search(rf"(^|[._]){function}(_\d+)?$", s["function"])]


def sum_sites(sites, function):
    """Sums the sites whose function is `function` in any module."""
    chosen = sites_of(sites, function)
    total = {key: sum(s[key] for s in chosen)
             for key in ("samples", "allocated_bytes", "promoted_bytes", "live_bytes")}
    for key in ("allocated_bytes_stderr", "live_bytes_stderr"):
        total[key] = math.sqrt(sum(s[key] ** 2 for s in chosen))
    return total


@contextlib.contextmanager
def standing_still(daemon):
    """Stops memprofd within the block, so that its rings overflow."""
    daemon.send_signal(signal.SIGSTOP)
    eventually(lambda: proc_status(daemon.pid, "State").startswith("T"), "memprofd stands still")
    try:
        yield
    finally:
        daemon.send_signal(signal.SIGCONT)


def start_ticks(pid):
    """Start time of the process in clock ticks since boot."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[19])


def children(pid):
    """Children of all its threads, including zombies."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += (task / "children").read_text().split()
    return found


def proc_status(pid, key):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
        if line.startswith(key + ":"):
            return line.split(":", 1)[1].strip()
    raise AssertionError(f"no {key} in /proc/{pid}/status")


class E2ETest(unittest.TestCase):
    """Ends every process it started; shows their output if a test fails."""

    def setUp(self):
        self.processes = []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="memprofd-test-"))
        self.addCleanup(self.clean_up)  # also runs after a failed setUp

    def processes_end(self):
        """Ends all processes between rounds of a test that continues after a failure, so that no
        round affects the next."""
        for process in reversed(self.processes):
            process.kill()

    def clean_up(self):
        self.processes_end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, result=None):
        problems = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > problems:
            self._show_logs()
        for process in getattr(self, "processes", []):
            process.log.close()
            process.popen.stdout.close()

    def _show_logs(self):
        for process in getattr(self, "processes", []):
            said = process.stderr()[-6000:]
            print(f"--- {self.id()}: {process.name()} (pid {process.pid}, "
                  f"exit {process.popen.returncode}) said:\n{said}", file=sys.stderr)

    def process(self, process):
        self.processes.append(process)
        return process

    def process_with_pid(self, pid, *command):
        """Starts a program under a pid that was used before."""
        last = pathlib.Path("/proc/sys/kernel/ns_last_pid")
        if not last.exists():
            raise unittest.SkipTest("this kernel gives out no pid that is asked for (CONFIG_CHECKPOINT_RESTORE)")
        for _ in range(200):
            last.write_text(str(pid - 1))
            process = Process(command)
            if process.pid == pid:
                return self.process(process)
            process.kill()
        raise unittest.SkipTest("the pid is taken")

    def target(self, name, *arguments, **options):
        return self.process(Target(name, *arguments, **options))

    def daemon(self, *arguments, **options):
        return self.process(Daemon(self.folder, *arguments, **options))

    def busy_target(self, program=BUSY_PROGRAM):
        """The program that tests disturb most, and its undisturbed output."""
        return self.target(*program), undisturbed_output(program)

    def assert_works_on(self, target):
        before = target.work_done()
        eventually(lambda: target.work_done() > before, f"pid {target.pid} works on")

    def assert_same_output(self, target, expected):
        """Ends a busy_target(); its output must be that of an undisturbed run."""
        eventually(lambda: target.command("stat")["checksums"], "it has computed something")
        answer = target.exit()
        self.assertEqual((0, expected), (answer.get("errors", 0), answer["checksums"]))

    def sample_on_command(self, daemon, target):
        """Waits until a target that answers "minor" is being sampled."""
        def sampling():
            target.command("minor")
            return daemon.state(target.pid) == "sampling"
        eventually(sampling, f"pid {target.pid} is sampled")

    def assert_one_line(self, text, *words):
        """The text is one line, a message to users, with these words."""
        lines = [line for line in text.strip().splitlines() if line]
        self.assertEqual(1, len(lines), text)
        for word in words:
            self.assertIn(str(word).lower(), lines[0].lower())

    def assert_estimate(self, what, estimate_bytes, exact_words, rate, sigmas=4.0):
        """Checks that |estimate - exact| is within `sigmas` standard errors, which follow from
        exact_words.

        One run finds blocks counted twice or not at all. Bias and correct errors need many runs:
        test_accuracy and make calibrate.
        """
        exact = exact_words * 8
        error = math.sqrt(exact_words / rate) * 8
        self.assertLessEqual(
            abs(estimate_bytes - exact), sigmas * error,
            f"{what}: estimated {estimate_bytes:.0f}, exact {exact}, standard error {error:.0f}")
