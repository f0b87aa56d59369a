"""Real Debian programs as targets: ocsigenserver under wrk, and ocamlopt.opt."""

import re
import shutil
import signal
import subprocess

import harness
from harness import Process, eventually, http_get

OCSIGEN_CONFIG = """<ocsigen>
  <server>
    <port>127.0.0.1:{port}</port>
    <logdir>{folder}/log</logdir>
    <datadir>{folder}/data</datadir>
    <user></user><group></group>
    <commandpipe>{folder}/command</commandpipe>
    <charset>utf-8</charset>
    <findlib path="/usr/lib/ocaml"/>
    <extension findlib-package="ocsigenserver.ext.staticmod"/>
    <host hostfilter="*" defaulthostname="localhost"><static dir="{folder}/www"/></host>
  </server>
</ocsigen>
"""


class Ocsigenserver(Process):
    """Serves one static page; started when that page is served."""

    def __init__(self, folder):
        folder = folder / "ocsigen"
        for name in ("log", "data", "www"):
            (folder / name).mkdir(parents=True)
        (folder / "www/index.html").write_text("<h1>hello</h1>\n" * 20)
        self.port = harness.free_port()
        config = folder / "ocsigen.conf"
        config.write_text(OCSIGEN_CONFIG.format(port=self.port, folder=folder))
        super().__init__([shutil.which("ocsigenserver.opt"), "-c", config], cwd=folder)
        self.url = f"http://127.0.0.1:{self.port}/index.html"
        eventually(self._serves, "ocsigenserver serves its page")

    def _serves(self):
        if not self.running():
            raise RuntimeError(f"ocsigenserver ended: {self.stderr()}")
        try:
            return http_get(self.url)[0] == 200
        except OSError:
            return False


class Wrk(Process):
    """Load on a URL until finish(), which returns what wrk counted."""

    def __init__(self, url):
        super().__init__(["wrk", "-t1", "-c8", "-d600s", url], stdin=subprocess.DEVNULL)

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


class Ocamlopt(Process):
    """The native compiler at work on a generated file."""

    def __init__(self, folder, functions=3_000):
        source = folder / "generated.ml"
        source.write_text(ocaml_source(functions))
        super().__init__([shutil.which("ocamlopt.opt"), "-c", "-g", source], cwd=folder,
                         stdin=subprocess.DEVNULL)
