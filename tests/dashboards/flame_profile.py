# SPDX-License-Identifier: Apache-2.0
"""Profiles in the format of dashboards/web/src/flame/profile.ts, and the page with one.

The tests' expected values are computed here, from the profile's columns.
"""

import json
import math
import random

import harness

TEMPLATE = harness.ROOT / "dashboards/web/offline.html"
BUILT = harness.BUILD / "web/dist-offline"
MEASURES = {"live": "Live", "allocated": "Allocated", "promoted": "Promoted", "died_young": "Died young",
            "died_old": "Died old"}
RATE = 1e-4


class Profile:
    """A profile, built stack by stack with add(); data() and page() return the result."""

    def __init__(self, title=""):
        self.title = title
        self.strings, self.functions = {"": 0}, {}
        self.parent, self.function = [-1], [0]
        self.children = {}  # (node, function) -> node
        self.samples = {key: [0] for key in MEASURES}
        self.lifetime = [None]

    def function_index(self, name, file, line):
        def string(text):
            return self.strings.setdefault(text, len(self.strings))
        return self.functions.setdefault((string(name), string(file), line), len(self.functions))

    def child(self, node, name, file="", line=0):
        """The child of a node for a function; creates it if it is new."""
        function = self.function_index(name, file, line)
        if (node, function) not in self.children:
            self.children[node, function] = len(self.parent)
            self.parent.append(node)
            self.function.append(function)
            for column in self.samples.values():
                column.append(0)
            self.lifetime.append(None)
        return self.children[node, function]

    def add(self, stack, lifetime=None, **samples):
        """Adds samples of a callstack. stack: (name, file, line) or names, outermost first."""
        node = 0
        for frame in stack:
            node = self.child(node, *((frame,) if isinstance(frame, str) else frame))
        self.count(node, lifetime, **samples)
        return node

    def count(self, node, lifetime=None, **samples):
        for key, n in samples.items():
            self.samples[key][node] += n
        self.lifetime[node] = lifetime if lifetime is not None else self.lifetime[node]

    # ------------------------------------------------------------ expectations

    def name(self, node):
        return list(self.strings)[list(self.functions)[self.function[node]][0]]

    def bytes(self, samples):
        return samples * 8 / RATE

    def subtree(self, key):
        """Samples by node, including those of its callees."""
        sums = list(self.samples[key])
        for node in range(len(sums) - 1, 0, -1):
            sums[self.parent[node]] += sums[node]
        return sums

    def stacks_with(self, key, wanted):
        """Samples of the stacks with a function whose name satisfies wanted()."""
        names = [name for name in self.strings]
        is_wanted = [wanted(names[function[0]]) for function in self.functions]
        inside, total = [False], 0
        for node in range(1, len(self.parent)):
            inside.append(inside[self.parent[node]] or is_wanted[self.function[node]])
            total += self.samples[key][node] if inside[node] else 0
        return total

    # ------------------------------------------------------------ the page

    def data(self):
        totals = {key: sum(column) for key, column in self.samples.items()}
        return {"title": self.title, "pid": 4242, "comm": "demo_server", "runtime_version": "4.14.1",
                "begin_unix_ms": 1769860800000, "end_unix_ms": 1769861100000, "sampling_rate": RATE,
                "dropped_events": 0,
                "measures": [{"key": key, "label": label, "unit": "bytes"} for key, label in MEASURES.items()],
                "totals": {key: [self.bytes(n), self.bytes(math.sqrt(n)), n] for key, n in totals.items()},
                "strings": list(self.strings), "functions": [list(f) for f in self.functions],
                "parent": self.parent, "function": self.function,
                "self": {key: [self.bytes(n) for n in column] for key, column in self.samples.items()},
                "variance": {key: [self.bytes(1) ** 2 * n for n in column] for key, column in self.samples.items()},
                "samples": self.samples, "lifetime_p50": self.lifetime}

    def page(self, changes=None):
        """The page in the form that flame_html() writes (daemon/export/formats/flame_html.h)."""
        text = json.dumps({**self.data(), **(changes or {})}, ensure_ascii=False, separators=(",", ":"))
        text = text.replace("<", "\\u003c")
        template = TEMPLATE.read_text()
        head, rest = template.split("/*STYLE*/")
        middle, rest = rest.split('"/*DATA*/"')
        before, after = rest.split("/*SCRIPT*/")
        style, script = ((BUILT / f"offline.{kind}").read_text() for kind in ("css", "js"))
        return head + style + middle + text + before + script + after


# ---------------------------------------------------------------- examples


def deep(depth=10_000, every=500):
    """One stack of `depth` different functions; every `every`-th allocates."""
    profile, node = Profile(), 0
    for i in range(depth):
        node = profile.child(node, f"Deep.f{i}", "deep.ml", i + 1)
        if i % every == every - 1:
            profile.count(node, live=1, allocated=2)
    return profile


def grid(columns=1000, rows=100):
    """All frames are wide enough to be drawn: the worst case for a profile of this size."""
    profile = Profile()
    for column in range(columns):
        node = 0
        for row in range(rows):
            node = profile.child(node, f"M{(column + row) % 30}.f{(7 * column + row) % 1009}", "m.ml", row)
        profile.count(node, 1.0, live=1, allocated=2)
    return profile


def small():
    """Few frames with distinct numbers, for exact expectations."""
    profile = Profile()
    main = ("Dune__exe__Server.main", "bin/server.ml", 210)
    handle = ("Dune__exe__Server.handle", "bin/server.ml", 120)
    cache = ("Dune__exe__Cache.add", "bin/cache.ml", 31)
    parse = ("Dune__exe__Http.parse", "bin/http.ml", 77)
    map_ = ("Stdlib__List.map", "list.ml", 92)
    profile.add([main, handle, cache], lifetime=40.0,
                live=400, allocated=500, promoted=450, died_old=90, died_young=10)
    profile.add([main, handle, cache, ("Stdlib__Hashtbl.replace", "hashtbl.ml", 280)], lifetime=200.0,
                live=150, allocated=160, promoted=155, died_old=8)
    profile.add([main, handle, parse], lifetime=0.002, live=5, allocated=900, promoted=12, died_young=890)
    profile.add([main, handle, parse, map_, map_], lifetime=0.0004, live=2, allocated=600, died_young=597)
    profile.add([main, ("Dune__exe__Server.load_config", "bin/server.ml", 33)],
                live=60, allocated=60, promoted=60)
    profile.add([main, ("caml_alloc_string", "", 0)], lifetime=1.5,
                live=9, allocated=100, promoted=30, died_old=21, died_young=70)
    return profile


MODULES = ["Dune__exe__Server", "Dune__exe__Cache", "Dune__exe__Router", "Stdlib__List", "Stdlib__Hashtbl",
           "Stdlib__Buffer", "Lwt", "Lwt_unix", "Cohttp__Request", "Yojson__Safe", "Re__Core", "Ppx_deriving"]
VERBS = ["handle", "map", "fold_left", "add", "replace", "parse", "to_string", "bind", "iter.(fun)", "run", "read",
         "of_json", "compile", "find_opt"]


def forest(nodes, seed=1, functions=400, deep=60):
    """About `nodes` nodes in the shape of real programs: few wide frames, many narrow ones."""
    random_ = random.Random(seed)
    profile = Profile()
    pool = [(f"{random_.choice(MODULES)}.{random_.choice(VERBS)}{i if i > 60 else ''}",
             f"src/file{i % 40}.ml", 10 + i) for i in range(functions)]
    while len(profile.parent) < nodes:
        node, depth = 0, 0
        length = min(deep, 3 + int(random_.expovariate(1 / 12)))
        while depth < length:
            # Rarely a new callee: most stacks share their outer frames.
            choice = int(random_.paretovariate(1.1)) + 7 * depth + node % 5
            node = profile.child(node, *pool[choice % functions])
            depth += 1
        n = 1 + int(random_.paretovariate(1.2))
        lived = 10 ** random_.gauss(-2 + 4 * ((node % 97) / 97), 0.8)
        young = n if lived < 0.01 else n // 3
        profile.count(node, lived, allocated=n, promoted=n - young, live=(n - young) // 2, died_young=young,
                      died_old=n - young - (n - young) // 2)
    return profile
