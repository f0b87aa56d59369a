# SPDX-License-Identifier: Apache-2.0
"""Real programs as targets, as Debian and npm ship them, each with work to do."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile

import harness
from harness import Process, eventually, http_get

SCRIPTS = harness.ROOT / "tests/targets"
RESCRIPT = ("@rescript/linux-x64", "12.3.1", "97eef669567a41bd2ed5725889c53ead34814aea9178940339d199992125b709")

OCSIGEN_CONFIG = """<ocsigen>
  <server>
    <port>127.0.0.1:{port}</port>
    <logdir>{folder}/log</logdir>
    <datadir>{folder}/data</datadir>
    <user></user><group></group>
    <commandpipe>{folder}/command</commandpipe>
    <charset>utf-8</charset>
    <findlib path="{findlib}"/>
    <extension findlib-package="ocsigenserver.ext.staticmod"/>
    <host hostfilter="*" defaulthostname="localhost"><static dir="{folder}/www"/></host>
  </server>
</ocsigen>
"""


class Prefix:
    """A program of another Debian release (tests/targets/debian-prefix.sh), run with that as its
    root.

    There the folder's own path leads to its root, so that files of `folder` have the same names
    inside and outside. It has a private /proc, through which it opens the agent.
    """

    def __init__(self, name):
        script = [SCRIPTS / "debian-prefix.sh", name]
        done = subprocess.run(script, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{name} cannot be had: {done.stderr[-2000:]}")
        self.path = pathlib.Path(done.stdout.strip())
        inside = self.path / str(self.path)[1:]
        inside.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            inside.symlink_to("/".join([".."] * (len(self.path.parts) - 2) or ["."]))
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="memprofd-test-", dir=self.path / "tmp"))

    def command(self, *arguments):
        chroot = shutil.which("chroot", path="/usr/sbin:/sbin")
        enter = f'mount -t proc proc "$0/proc" && exec {chroot} "$0" "$@"'
        return ["unshare", "--mount", "sh", "-c", enter, self.path, *arguments]

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Ocsigenserver(Process):
    """Serves one static page; started once that page is served."""

    def __init__(self, folder, prefix=None, env=None):
        folder = folder / "ocsigen"
        for name in ("log", "data", "www"):
            (folder / name).mkdir(parents=True)
        (folder / "www/index.html").write_text("<h1>hello</h1>\n" * 20)
        self.port = harness.free_port()
        config = folder / "ocsigen.conf"
        findlib = "/usr/lib/ocaml" if prefix is None else next((prefix.path / "usr/lib").glob("*/ocaml/5.*"))
        config.write_text(OCSIGEN_CONFIG.format(port=self.port, folder=folder, findlib=findlib))
        command = [shutil.which("ocsigenserver.opt")] if prefix is None else prefix.command(
            "/usr/bin/ocsigenserver.opt")
        super().__init__([*command, "-c", config], cwd=folder, env=env)
        self.url = f"http://127.0.0.1:{self.port}/index.html"
        eventually(self._serves, "ocsigenserver serves its page")

    def _serves(self):
        if not self.running():
            raise RuntimeError(f"ocsigenserver ended: {self.stderr()}")
        try:
            return http_get(self.url)[0] == 200
        except OSError:
            return False


def latencies(text):
    """Percentile to milliseconds from wrk's output: "    99%    2.41ms"."""
    found = re.findall(r"^ +(\d+)% +([\d.]+)(us|ms|s)$", text, re.M)
    return {percentile: float(time) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit] for percentile, time, unit in found}


class Wrk(Process):
    """Load on a URL until finish(), which returns wrk's counts.

    Eight connections send requests as fast as they are answered, or `paced`: at most 800 per second
    in total.
    """

    def __init__(self, url, paced=False):
        script = ["-s", harness.ROOT / "tests/kit/paced.lua"] if paced else []
        super().__init__(["wrk", "-t1", "-c8", "-d600s", "--timeout", "60s", "--latency", *script, url],
                         stdin=subprocess.DEVNULL)

    def finish(self):
        self.stop(signal.SIGINT)
        while self.lines.get(timeout=harness.TIMEOUT) is not None:
            pass
        text = "".join(self.output)
        requests = re.search(r"(\d+) requests in", text)
        bad_status = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
        socket_errors = re.search(r"Socket errors: (.*)", text)
        return {
            "requests": int(requests.group(1)) if requests else 0,
            "bad_answers": int(bad_status.group(1)) if bad_status else 0,
            "socket_errors": socket_errors.group(1) if socket_errors else "",
            "latency_ms": latencies(text),
        }


def ocaml_source(functions):
    """A source file that takes ocamlopt a few seconds."""
    body = """let f{i} x y =
  let rec go acc n = if n = 0 then acc else go ((n * {i}, string_of_int (n + x)) :: acc) (n - 1) in
  match go [] y with
  | [] -> {{ Complex.re = float x; im = {i}.0 }}
  | (a, s) :: rest -> {{ Complex.re = float (a + List.length rest); im = float (String.length s) }}
"""
    return "".join(body.format(i=i) for i in range(functions))


# Waits until the file exists or the test's folder is gone.
GATE = """#!/bin/sh
while [ -d "{folder}" ] && [ ! -e "{folder}/{gate}" ]; do sleep 0.1; done
{command} "$@"
"""


class Ocamlopt(Process):
    """The native compiler at work on a generated file. If `held`, it waits before its work until
    begin(), and before its end until finish(), in its preprocessor and its assembler."""

    def __init__(self, folder, functions=3_000, held=False):
        self.folder = folder / "gates"
        (self.folder / "bin").mkdir(parents=True, exist_ok=True)
        source = folder / "generated.ml"
        source.write_text(ocaml_source(functions))
        self.result = folder / "generated.o"
        config = subprocess.run(["ocamlopt.opt", "-config-var", "asm"], capture_output=True, text=True, check=True).stdout
        assembler = config.split()[0]
        # The compiler's messages and debugging information name the source, not a temporary file.
        preprocess = """echo '# 1 "generated.ml"'; cat"""
        for gate, name, command in (("begin", "preprocess", preprocess), ("finish", assembler, shutil.which(assembler))):
            (self.folder / gate).unlink(missing_ok=True)
            script = self.folder / "bin" / name
            script.write_text(GATE.format(folder=self.folder, gate=gate, command=command))
            script.chmod(0o755)
        if not held:
            self.begin()
            self.finish()
        super().__init__([shutil.which("ocamlopt.opt"), "-c", "-g", "-pp", "preprocess", "generated.ml"], cwd=folder,
                         stdin=subprocess.DEVNULL, env=dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}"))

    def begin(self):
        (self.folder / "begin").touch()

    def finish(self):
        (self.folder / "finish").touch()


COQ_PLUGINS = """From Coq Require Import Nsatz ssreflect Btauto Rtauto Extraction FunInd Derive.
From Ltac2 Require Import Ltac2.
Set Default Proof Mode "Classic".
"""


def lia_goals(count):
    """A Coq file with goals that its plugin for integer arithmetic proves."""
    goals = [f"""Lemma l{i} : forall a b c d : Z, 0 <= a -> 0 <= b -> a + {i} * b <= c -> c < d ->
  2 * d > 2 * a + {i} * b - 1 /\\ (a * 2 + 1 <> b * 2 \\/ d > c).
Proof. intros; lia. Qed.
""" for i in range(1, count + 1)]
    return "From Coq Require Import Lia ZArith.\nOpen Scope Z_scope.\n" + "".join(goals)


class Coqc(Process):
    """Coq at work on a generated file: deep stacks and plugins, more of them on request. If `held`,
    it has loaded its plugins, begins and ends by itself, and works for long."""

    def __init__(self, folder, goals=1_000, plugins="", held=False):
        folder.mkdir(exist_ok=True)
        (folder / "generated.v").write_text(plugins + lia_goals(goals))
        self.result = folder / "generated.vo"
        super().__init__(["/usr/bin/coqc", "generated.v"], cwd=folder, stdin=subprocess.DEVNULL)
        if held:
            eventually(self.has_plugins, "it is at work")

    def begin(self):
        pass

    def finish(self):
        pass

    def has_plugins(self):
        """True if it has loaded the last plugin that its goals need."""
        return "/zify_plugin.cmxs" in pathlib.Path(f"/proc/{self.pid}/maps").read_text()


class Coqtop(Process):
    """Coq's prompt, with its libraries for integers and all plugins loaded; it waits for
    sentences."""

    def __init__(self, folder):
        super().__init__(["/usr/bin/coqtop", "-q"], cwd=folder)
        self.send("From Coq Require Import Lia ZArith.\n" + COQ_PLUGINS)
        self.step()

    def step(self):
        """A small sentence, after all earlier ones are done."""
        self.send("Check 0%Z.")
        while ": Z" not in self.read_line():
            pass


HAXE_SOURCE = """class Main {
  static function main() {
    var sum = 0;
%s    trace(sum);
  }
}
"""


class Haxe(Process):
    """The compiler as a server; compile() requests one compilation."""

    def __init__(self, folder):
        self.folder = folder
        lines = "".join(f"    sum += [for (i in 0...{n}) i * {n}].length;\n" for n in range(1, 200))
        (folder / "Main.hx").write_text(HAXE_SOURCE % lines)
        self.port = harness.free_port()
        super().__init__(["/usr/bin/haxe", "--wait", f"127.0.0.1:{self.port}"], cwd=folder)
        eventually(self._listens, "haxe listens")

    def _listens(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def compile(self):
        """The compiled program."""
        done = subprocess.run(["/usr/bin/haxe", "--connect", f"127.0.0.1:{self.port}", "-cp", self.folder, "--no-opt",
                               "-main", "Main", "-js", self.folder / "out.js"], cwd=self.folder,
                              capture_output=True, text=True, timeout=harness.TIMEOUT, check=False)
        if done.returncode != 0:
            raise AssertionError(f"haxe: {done.stderr}{done.stdout}")
        return (self.folder / "out.js").read_text()


class Unison(Process):
    """Synchronizes two folders each second."""

    def __init__(self, folder, files=2_000, prefix=None):
        self.left, self.right = folder / "left", folder / "right"
        for i in range(files):
            path = self.left / f"d{i % 50}"
            path.mkdir(parents=True, exist_ok=True)
            (path / f"f{i}").write_text(f"file {i}\n")
        self.right.mkdir()
        (folder / "state").mkdir()
        command = ["/usr/bin/unison"] if prefix is None else prefix.command("/usr/bin/unison-2.53")
        super().__init__([*command, "-ui", "text", "-batch", "-auto", "-repeat", "1", self.left, self.right],
                         cwd=folder, env={"UNISON": str(folder / "state"), "HOME": str(folder), "PATH": "/usr/bin:/bin"})

    def same(self):
        return subprocess.run(["diff", "-rq", self.left, self.right], capture_output=True, check=False).returncode == 0


class Bsc(Process):
    """ReScript's compiler, static and stripped, waiting for its source in a pipe."""

    def __init__(self, folder):
        subprocess.run([SCRIPTS / "npm-package.sh", *RESCRIPT, folder / "rescript"], check=True, timeout=300)
        source = folder / "Pipe.res"
        subprocess.run(["mkfifo", source], check=True)
        super().__init__([folder / "rescript/bin/bsc.exe", source], cwd=folder)
