# SPDX-License-Identifier: Apache-2.0
"""The page at / against a live memprofd: overview, memory over time, time shifting,
comparing, links, export, keyboard. Tables and flame graphs: test_page_sites."""

import csv
import gzip
import json
import os
import re
import signal
import time
import xml.etree.ElementTree

import harness
from page_harness import PICTURE_SECONDS, PageTest

OVER = "#charts .u-over"
SVG = "{http://www.w3.org/2000/svg}"


def seconds(view, name="end"):
    return view[name] / 1000


class Overview(PageTest):
    def latest(self):
        return max(self.ask("targets")["targets"], key=lambda target: int(target["attached_unix_ns"]))["pid"]

    def test_shows_each_program_with_its_numbers(self):
        self.open()
        self.browser.wait_for(f"""document.querySelector('#overview tr[data-pid="{self.server.pid}"]')
            .cells[3].innerText.includes("/s")""")
        for pid in (self.server.pid, self.other.pid):
            name, state, live, allocates, heap, collections, pauses, rate, lost, _ = self.cells(pid)
            self.assertEqual(name, f"demo_server {pid}")
            self.assertEqual(state, "sampling, agent")
            self.assertRegex(live, r"^[\d.]+ [KM]iB ± [\d.]+$")
            self.assertRegex(heap, r"^[\d.]+ MiB$")
            self.assertEqual(float(rate), 1e-3)
            self.assertEqual(lost, "none")
        self.assertRegex(self.cells(self.server.pid)[3], r"^[\d.]+ [KM]iB/s$")
        self.assertRegex(self.cells(self.server.pid)[5], r"^[\d.]+/s(, [\d.]+/(s|min) major)?$")
        # What it allocates, by the runtime's own counters, is what the samples say.
        said, unit = re.match(r"([\d.]+) ([KM])iB", self.cells(self.server.pid)[3]).groups()
        said = float(said) * {"K": 2**10, "M": 2**20}[unit]
        target = next(t for t in self.ask("targets")["targets"] if t["pid"] == self.server.pid)
        gc, seconds = target["gc"], time.time() - int(target["attached_unix_ns"]) / 1e9
        self.assertGreater(said, 0.3 * target["allocated"]["bytes"] / seconds)
        self.assertLess(said, 3 * target["allocated"]["bytes"] / seconds)
        self.assertGreater(int(gc["minor_collections"]), 0)

    def cell(self, pid, column, what="innerText"):
        return f"""document.querySelector('#overview tr[data-pid="{pid}"]')?.cells[{column}]?.{what}"""

    def test_how_a_program_has_ended(self):
        killed, asked = (self.start(harness.Target("demo_server", "--self-load", "1")) for _ in range(2))
        for program, number in ((killed, signal.SIGKILL), (asked, signal.SIGTERM)):
            self.daemon.attach(program.pid)
            self.daemon.wait_state(program.pid, "sampling")
            program.send_signal(number)
            program.wait()
            self.daemon.wait_state(program.pid, "exited")
        self.open()
        self.browser.wait_for(f"{self.cell(killed.pid, 1)} === 'exited: killed by SIGKILL'")
        self.assertEqual("failed", self.js(self.cell(killed.pid, 1, "className")))
        self.assertRegex(self.js(self.cell(killed.pid, 1, "title")), r"^the program ended: killed by SIGKILL, .* ago;")
        self.assertRegex(self.cells(killed.pid)[2], r"iB")
        self.assertRegex(self.cells(asked.pid)[1], r"^exited: ")
        self.assertEqual("exited", self.js(self.cell(asked.pid, 1, "className")))

    def test_who_captures_and_what_a_budget_has_led_to(self):
        bounded, watched = (self.start(harness.Target("demo_server", "--self-load", "1")) for _ in range(2))
        self.daemon.ctl("attach", "--pid", bounded.pid, "--max-overhead", "50%")
        self.daemon.ctl("attach", "--pid", watched.pid, "--mode", "observe")
        self.open()
        self.browser.wait_for(f"/^(<0.1|[\\d.]+) % of 50 % CPU$/.test({self.cell(bounded.pid, 7)} ?? '')")
        budget = self.js(self.cell(bounded.pid, 7, "querySelector('.budget').title"))
        self.assertRegex(budget, "the budget is 50 %. Requested 1e-3 per word, lowered 0 times, raised 0 times.$")
        self.assertIn("callstacks by the runtime", self.js(self.cell(bounded.pid, 1, "title")))
        self.assertRegex(self.js(self.cell(self.server.pid, 7)), r"^[\d.]+ % CPU$", "it has no budget")
        self.browser.wait_for(f"{self.cell(watched.pid, 1)} === 'sampling, observe'")
        self.assertIn("callstacks by the kernel", self.js(self.cell(watched.pid, 1, "title")))
        self.assertTrue(self.js(self.cell(watched.pid, 7, "querySelector('input').hidden")), "it has no rate")
        for target in (bounded, watched):
            # Another test looks at the latest program, which has a chart only with two points.
            harness.eventually(lambda: len(self.history(target.pid, measure="allocated")["points"]) > 1, "it has a history")
            self.daemon.detach(target.pid)

    def test_a_click_chooses_a_program(self):
        self.open()
        self.browser.click_on(f'#overview tr[data-pid="{self.other.pid}"] button')
        self.browser.wait_for(f"memprofd.view().pid === {self.other.pid}")
        self.assertEqual(self.js("""document.querySelector("#overview tr.chosen").dataset.pid"""), str(self.other.pid))

    def test_without_a_pid_the_latest_program_is_chosen(self):
        self.open("")
        self.assertEqual(self.view()["pid"], self.latest())


    def test_a_program_that_is_not_known_is_said(self):
        self.open("pid=1")
        self.assertEqual(self.view()["pid"], self.latest())
        self.assertIn("pid 1 was never profiled here", self.text("#notice"))

    def test_hostile_names_are_shown_as_text(self):
        hostile = self.start_named("<img src=x>")
        self.open()
        self.browser.wait_for(f"""document.querySelector('#overview tr[data-pid="{hostile.pid}"]') !== null""")
        self.assertEqual(self.cells(hostile.pid)[0], f"<img src=x> {hostile.pid}")
        self.assertEqual(self.js("document.querySelectorAll('img').length"), 0)
        self.daemon.detach(hostile.pid)

    def test_programs_that_are_not_profiled_are_listed_with_the_reason(self):
        """As memprofctl targets --all has them: where a missing process is searched for."""
        other, bytecode = self.start(harness.Target("known_alloc")), self.start(harness.Target("bytecode_target"))
        self.open()
        self.assertFalse(self.js("document.querySelector('#overview .unprofiled').open"))
        self.browser.wait_for(f"""[{other.pid}, {bytecode.pid}].every((pid) =>
            document.querySelector(`.unprofiled tr[data-pid="${{pid}}"]`) !== null)""")
        self.assertRegex(self.text(".unprofiled summary"), r"^Not profiled: \d+ programs \(.*no rule.*\)")
        self.browser.click_on(".unprofiled summary")
        self.browser.wait_for("memprofd.view().extra['overview.unprofiled'] === '1'")
        cells = lambda pid: self.js(f"""[...document.querySelectorAll('.unprofiled tr[data-pid="{pid}"] td')].map((td) => td.innerText)""")
        name, outcome, _, exe, reason, _ = cells(other.pid)
        self.assertEqual((f"known_alloc {other.pid}", "no rule"), (name, outcome))
        self.assertTrue(exe.endswith("/known_alloc"), exe)
        self.assertIn("named by no --name", reason)
        self.assertEqual("bytecode", cells(bytecode.pid)[1])
        self.assertIn("ocamlopt", cells(bytecode.pid)[4])
        self.assertTrue(self.js(f"""document.querySelector('.unprofiled tr[data-pid="{other.pid}"] button').disabled"""), "control is off")
        profiled = self.js(f"""document.querySelector('.unprofiled tr[data-pid="{self.server.pid}"]')""")
        self.assertIsNone(profiled, "it is in the list above")
        self.js("location.reload()")
        self.browser.wait_for("document.querySelector('#overview .unprofiled')?.open === true")
        other.kill()
        self.browser.wait_for(f"""document.querySelector('.unprofiled tr[data-pid="{other.pid}"]') === null""")

    def test_control_is_off_and_says_how_it_gets_on(self):
        self.open()
        for selector in ("#overview input[name=pid]", "#overview input.rate", "#overview td:last-child button"):
            self.assertTrue(self.js(f"document.querySelector({json.dumps(selector)}).disabled"), selector)
            self.assertIn("--web.enable-control", self.js(f"document.querySelector({json.dumps(selector)}).title"))
        self.assertIn("start memprofd with --web.enable-control", self.text("#overview .off"), "where nothing is pointed at")


class Observing(PageTest):
    """Of a program in observe mode the page shows what it allocates, and asks for nothing else."""

    def setUp(self):
        super().setUp()
        self.program = self.start(harness.Target("demo_server", "--self-load", "1"))
        self.daemon.ctl("attach", "--pid", self.program.pid, "--mode", "observe")
        self.addCleanup(self.daemon.detach, self.program.pid)
        harness.eventually(lambda: self.daemon.sites(self.program.pid), "sites")

    def wait_allocated(self):
        self.browser.wait_for("memprofd.view().measure === 'allocated'")
        self.assertEqual([True, False, True], self.js("""["live", "allocated", "died_old"].map((measure) =>
            document.querySelector(`#flame [data-value="${measure}"]`).disabled)"""))

    def test_every_tab_shows_what_it_allocates(self):
        self.browser.navigate(self.url + "/", f"#pid={self.program.pid}")
        self.browser.wait_for("window.memprofd && memprofd.charts()[0].points > 1")
        for tab in ("callers", "sites", "flame"):
            self.js(f"document.getElementById('tab-{tab}').click()")
            self.browser.settle()
        self.wait_allocated()
        self.browser.wait_for("(memprofd.flame()?.frames ?? []).some((f) => f.name.includes('Demo_server'))")
        self.assertEqual("allocated", self.js("memprofd.flame().measure"))
        self.assertEqual("–", self.cells(self.program.pid)[2])

    def test_a_program_that_is_chosen_in_the_table(self):
        self.open(f"pid={self.server.pid}&tab=flame&m=died_old")
        self.browser.wait_for("memprofd.flame()?.measure === 'died_old'")
        row = f"#overview tr[data-pid='{self.program.pid}']"
        self.wait_element(row)
        self.js(f"document.querySelector({json.dumps(row)}).click()")
        self.wait_allocated()
        self.browser.wait_for(f"memprofd.view().pid === {self.program.pid} && memprofd.flame()?.measure === 'allocated'")


class Answer(PageTest):
    """The verdict in the first view: each of memprofctl leaks' answers in words."""

    SITE = {"function": "Shop.Cart.add", "file": "cart.ml", "line": 7, "module": "Shop", "callstack": []}
    LEAK = {"site": SITE, "growth_bytes": 3 << 20, "growth_bytes_stderr": 1 << 18, "growth_bytes_per_second": 1 << 16,
            "growth_bytes_per_second_stderr": 1 << 12, "confidence": 1}

    def answer(self, verdict, grows=(), grown=0, **more):
        """Has every page that is opened get this answer about leaks. grows: areas of memory that do; grown: bytes of the others."""
        now = time.time_ns()
        memory = [{"area": f"MEMORY_AREA_{area}", "begin_bytes": 10 << 20, "end_bytes": (10 << 20) + (grown if area not in grows else 5 << 20),
                   "least_growth_bytes": 1 << 20, "since_unix_ns": str(now), "confidence": 1, "grows": area in grows, "moments": moments}
                  for area, moments in (("HEAP", 20), ("NATIVE", 20), ("MAPPED", 2))]
        answer = {"leaks": [], "rolled_up": [], "memory": memory, "verdict": f"LEAK_VERDICT_{verdict}", "compared_seconds": 60,
                  "least_leak_bytes_per_second": 1024, **more}
        script = f"""{{ const ask = window.fetch;
            window.fetch = async (url, init) => String(url).includes("/api/v1/leaks?") && String(url).includes("roll_up=true")
                ? new Response({json.dumps(json.dumps(answer))}) : ask(url, init); }}"""
        added = self.browser.call("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
        try:
            self.open()
            self.browser.wait_for("memprofd.verdict() !== null")
        finally:
            self.browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added)
        return self.js("memprofd.verdict()")

    def test_a_site_that_grows(self):
        verdict = self.answer("SITES", grows=("HEAP",), leaks=[self.LEAK])
        self.assertEqual(("leak", "Something is leaking: +3.00 MiB in 1.0 min"), (verdict["kind"], verdict["title"]))
        self.assertRegex(verdict["detail"], r"OCaml heap \+5\.00 MiB since [\d:]+ \(99\.9 % sure\); native memory: steady\.$")
        self.assertIn("Shop.Cart.add", self.text("#verdict li"))
        self.assertIn("99.9 % sure", self.text("#verdict li"))

    def test_sites_that_grow_together(self):
        verdict = self.answer("GROUPS", rolled_up=[{"group_by": "GROUP_BY_MODULE", "leak": self.LEAK}])
        self.assertEqual(("leak", "Something is leaking: +3.00 MiB in 1.0 min"), (verdict["kind"], verdict["title"]))
        self.assertIn("Module Shop", self.text("#verdict li"))
        self.press("Module Shop", "#verdict")
        self.browser.wait_for("memprofd.view().extra['sites.by'] === 'module' && memprofd.view().extra['sites.mode'] === 'growth'")

    def test_memory_that_grows_where_no_site_does(self):
        verdict = self.answer("MEMORY", grows=("NATIVE",))
        self.assertEqual("growth", verdict["kind"])
        self.assertRegex(verdict["title"], r"^Memory grows: native memory \+5\.00 MiB since [\d:]+ \(99\.9 % sure\)$")
        self.assertEqual("OCaml heap: steady. Resident memory, below, shows its parts.", verdict["detail"])
        self.assertTrue(self.js("document.querySelector('#verdict ol').hidden"))

    def test_growth_that_samples_do_not_explain_yet(self):
        verdict = self.answer("MEMORY", grows=("HEAP",))
        self.assertEqual("Native memory: steady. Samples do not show yet which code takes it.", verdict["detail"])
        group = {"group_by": "GROUP_BY_FUNCTION", "leak": self.LEAK}
        verdict = self.answer("MEMORY", grows=("HEAP",), rolled_up=[group])
        self.assertIn("which may be chance:", verdict["detail"])
        self.assertIn("Shop.Cart.add, with its callees", self.text("#verdict li"))

    def test_nothing_grows(self):
        verdict = self.answer("NONE")
        self.assertEqual(("none", "No significant growth in 1.0 min"), (verdict["kind"], verdict["title"]))
        self.assertIn("less than 3.52 MiB per hour", verdict["detail"])
        self.assertIn("OCaml heap, native memory: steady.", verdict["detail"])

    def test_growth_that_is_not_certain(self):
        """Memory that has changed by more than what matters is not called steady."""
        verdict = self.answer("NONE", grown=2 << 20)
        self.assertIn("OCaml heap +2.00 MiB, not certain; native memory +2.00 MiB, not certain.", verdict["detail"])
        self.assertIn("OCaml heap −2.00 MiB; native memory −2.00 MiB.", self.answer("NONE", grown=-2 << 20)["detail"])

    def test_too_little_is_known(self):
        self.assertEqual("unknown", self.answer("UNKNOWN", compared_seconds=0)["kind"])


class Controlling(PageTest):
    """Attach, detach and rate, where memprofd allows them."""

    arguments = ("--web.enable-control",)
    expected_errors = ("404", "409", "Failed to load resource")

    def target(self, pid):
        return next((t for t in self.ask("targets")["targets"] if t["pid"] == pid), None)

    def said(self, text):
        self.browser.wait_for(f"document.querySelector('#notice').innerText.includes({json.dumps(text)})")

    def type_into(self, selector, text):
        self.js(f"""(() => {{ const field = document.querySelector({json.dumps(selector)}); field.focus(); field.select(); }})()""")
        self.browser.type(text)

    def test_the_rate_of_a_program(self):
        self.open()
        self.type_into(f'#overview input.rate[data-pid="{self.other.pid}"]', "5e-4")
        self.browser.key("Enter")
        self.said(f"Sampling rate of pid {self.other.pid} to 5e-4: done")
        self.assertEqual(self.target(self.other.pid)["sampling_rate"], 5e-4)
        self.browser.wait_for(f"""document.querySelector('#overview input.rate[data-pid="{self.other.pid}"]').value === "5e-4" """)

    def test_a_rate_that_is_none_is_not_sent(self):
        self.open()
        rate = self.target(self.server.pid)["sampling_rate"]
        for text in ("7", "0", "fast", "-1e-3"):
            self.type_into(f'#overview input.rate[data-pid="{self.server.pid}"]', text)
            self.browser.key("Enter")
            self.said(f'"{text}" is not a sampling rate')
        self.assertEqual(self.target(self.server.pid)["sampling_rate"], rate)

    def test_attach_and_detach(self):
        third = self.start(harness.Target("demo_server", "--self-load", "1"))
        self.open()
        self.type_into("#overview input[name=pid]", str(third.pid))
        self.type_into("#overview input[name=rate]", "1e-4")
        self.browser.key("Enter")
        self.said(f"Attach to pid {third.pid}: done")
        self.daemon.wait_state(third.pid, "sampling")
        self.assertEqual(self.target(third.pid)["sampling_rate"], 1e-4)
        self.wait_element(f'#overview tr[data-pid="{third.pid}"]')
        self.browser.click_on(f'#overview tr[data-pid="{third.pid}"] td:last-child button')
        self.said(f"(pid {third.pid}): done")
        self.assertEqual(self.target(third.pid)["state"], "TARGET_STATE_DETACHED")
        self.assertIsNone(third.popen.poll(), "it runs on")

    def test_attach_to_a_program_that_is_not_profiled(self):
        other = self.start(harness.Target("demo_server", "--self-load", "1"))
        self.open(f"pid={self.server.pid}&x.overview.unprofiled=1")
        row = f'.unprofiled tr[data-pid="{other.pid}"]'
        self.wait_element(f"{row} button:not(:disabled)")
        self.browser.click_on(f"{row} button")
        self.daemon.wait_state(other.pid, "sampling")
        self.wait_element(f'#overview .targets tr[data-pid="{other.pid}"]')
        self.browser.wait_for(f"document.querySelector({json.dumps(row)}) === null")
        self.daemon.detach(other.pid)
        self.browser.wait_for(f"document.querySelector({json.dumps(row)})?.cells[1].innerText === 'detached'")

    def test_a_snapshot_is_saved(self):
        """What memprofctl tells of the file is what it tells of one of its own: the same program, all of it."""
        saved = self.folder / "snapshots"
        saved.mkdir()
        self.browser.save_downloads(saved)
        self.open()
        self.browser.click_on(f'#overview tr[data-pid="{self.server.pid}"] td:last-child button:nth-of-type(2)')
        self.said(f"Snapshot of demo_server (pid {self.server.pid}): saved, ")
        file = saved / f"demo_server-{self.server.pid}.heap"
        harness.eventually(file.exists, "it is there")
        shown = json.loads(harness.memprofctl("snapshot", "show", file, "-o", "json").stdout)
        self.assertEqual((True, self.server.pid), (shown["snapshot"]["complete"], shown["snapshot"]["pid"]))
        self.assertGreater(shown["heap"]["reachable"]["blocks"], 1000)
        self.assertIn("done, paused for", self.daemon.said())
        harness.eventually(lambda: self.target(self.server.pid)["paused_seconds"] >= shown["snapshot"]["pause_seconds"],
                           "its pause is counted")

    def test_what_is_in_a_heap(self):
        """The page shows what gRPC answers: what a program's heap is made of, and what holds it."""
        self.open()
        self.browser.click_on(f'#overview tr[data-pid="{self.server.pid}"] td:last-child button:nth-of-type(3)')
        self.wait_element("#overview .heap .holders li")
        self.assertRegex(self.text("#overview .heap p"), r" reachable, in [\d,.]+.* blocks; .* The program was paused for ")
        # What a thread has on its stack at that moment, too, is held by several.
        largest = self.text("#overview .heap .holders summary")
        self.assertRegex(largest, r"^\d+ % (globals|several, nearest global Demo_server, field \d+) .* blocks")
        if " globals " in largest:
            modules = self.js("[...document.querySelectorAll('#overview .holders > ul > li > details > ul > li')].map((li) => li.textContent)")
            self.assertTrue(any(" Demo_server " in module for module in modules), modules)
        classes = self.js("[...document.querySelectorAll('#overview .classes tbody td:first-child')].map((td) => td.textContent)")
        self.assertLessEqual({"string", "array", "block(2)"}, set(classes))
        self.assertRegex(self.daemon.said(), "snapshot to describe by .*: done")
        self.press("Close", "#overview .heap")
        self.assertTrue(self.js("document.querySelector('#overview .heap').hidden"))

    def test_what_keeps_a_site_alive(self):
        self.ask_why_sessions_live()
        self.assertRegex(self.text(".site-detail .why p"), r"reachable, in [\d,]+ sampled blocks; .* The program was paused for")
        # A line ends where ways part, and the next one begins with its share and size.
        way = re.sub(r"\n\d+ % [\d.]+ \w+( ± [\d.]+)?", "", self.text(".site-detail .why li")).replace(" [*]", "[*]")
        self.assertRegex(way, r"^100 % .* global Demo_server, field \d+ → block\(4\) field 1 → "
                              r"(array|\(_, _\) Hashtbl\.bucketlist array)\[\*\] → (block\(3\)|\(_, _\) Hashtbl\.bucketlist\.Cons)")

    def test_a_snapshot_that_is_refused_says_why(self):
        idle = self.start(harness.Target("demo_server", "--self-load", "1"))
        self.daemon.attach(idle.pid)
        self.daemon.wait_state(idle.pid, "sampling")
        self.open()
        button = f'#overview tr[data-pid="{idle.pid}"] td:last-child button:nth-of-type(2)'
        self.wait_element(button)
        os.kill(idle.pid, signal.SIGSTOP)
        harness.eventually(lambda: harness.proc_status(idle.pid, "State")[0] == "T", "it is stopped")
        self.browser.click_on(button)
        self.said("it is stopped (SIGSTOP)")

    def allow_hardly_any_pause(self):
        """Of the page's own questions, those without a pause that they allow: as with a heap of gigabytes."""
        self.js("""(() => { const ask = window.fetch;
            window.fetch = (url, init) => {
                const body = init?.method === "POST" ? JSON.parse(init.body) : null;
                if (body === null || "max_pause_seconds" in body) return ask(url, init);
                return ask(url, {...init, body: JSON.stringify({...body, max_pause_seconds: 1e-9})}); }; })()""")

    def take_it(self, within, done):
        """Presses what stands beside the refusal, again where the machine has become slower meanwhile."""
        def taken():
            if self.js(done):
                return True
            offered = self.js(f"document.querySelector({json.dumps(within + ' .allow-pause')})?.innerText")
            if offered:
                self.assertRegex(offered, r"^(Takes about|Allow) [\d.]+ [mµ]?s: take it$")
                self.js(f"document.querySelector({json.dumps(within + ' .allow-pause')}).click()")
            return False
        harness.eventually(taken, f"it is taken where {within} refused it")

    def test_a_pause_that_is_too_long_is_allowed_where_it_is_refused(self):
        self.open()
        self.allow_hardly_any_pause()
        row = f'#overview tr[data-pid="{self.server.pid}"] td:last-child button:nth-of-type'
        self.browser.click_on(f"{row}(3)")
        self.wait_element("#overview .heap .allow-pause")
        self.assertRegex(self.text("#overview .heap .error"), r"would be paused for about [\d.]+ [mµ]?s; 1\.0 ns are allowed")
        self.take_it("#overview .heap", "document.querySelector('#overview .heap .holders li') !== null")
        saved = self.folder / "allowed"
        saved.mkdir()
        self.browser.save_downloads(saved)
        self.browser.click_on(f"{row}(2)")
        self.wait_element("#notice .allow-pause")
        self.take_it("#notice", "document.querySelector('#notice').innerText.includes(': saved, ')")

    def test_why_a_site_lives_is_allowed_a_longer_pause_where_it_is_refused(self):
        self.wait_sessions()
        self.open(f"pid={self.server.pid}&tab=sites")
        self.allow_hardly_any_pause()
        self.open_session_site()
        self.press("Take a snapshot and look", ".site-detail .why")
        self.wait_element(".site-detail .why .allow-pause")
        self.take_it(".site-detail .why", "document.querySelector('.site-detail .why li') !== null")

    def test_what_cannot_be_attached_to_is_said(self):
        self.open()
        self.type_into("#overview input[name=pid]", str(os.getpid()))
        self.browser.key("Enter")
        self.said("is not an OCaml program")

    def test_a_page_of_another_site_is_refused(self):
        """Its browser asks memprofd first, and gets no permission; what needs none is refused."""
        rate = self.target(self.server.pid)["sampling_rate"]
        for kind in ('headers: {"Content-Type": "application/json", "X-Memprofd-Control": "1"}', 'mode: "no-cors"'):
            self.browser.navigate("about:blank")
            status = self.js(f"""fetch({json.dumps(self.url)} + "/api/v1/rate", {{method: "POST", {kind},
                body: JSON.stringify({{pid: {self.server.pid}, sampling_rate: 1e-6}})}}).then((r) => r.status, () => -1)""")
            self.assertLessEqual(status, 0, "its page learns nothing")
            self.browser.errors.clear()
        self.assertEqual(self.target(self.server.pid)["sampling_rate"], rate)


class Charts(PageTest):
    def click_area(self, label):
        place = f"""memprofd.charts()[0].areas.find((a) => a.label === {json.dumps(label)})?.place"""
        self.browser.wait_for(f"memprofd.verdict() && {place}")
        box = self.steady(lambda: self.js(place))
        self.browser.click(box["x"], box["y"])

    def wait_groups(self, by):
        self.browser.wait_for(f"""memprofd.charts()[0].by === "{by}" && memprofd.charts()[0].areas.length > 0""")

    def test_areas_are_what_memprofd_says(self):
        self.wait_recorded(8)
        self.open(f"pid={self.server.pid}&by=function")
        self.press("❚❚ Pause")  # so that nothing moves
        chart = self.chart()
        # At the end of a window of the history: the same question, and the same answer.
        at = len(chart["times"]) - 3
        answer = self.history(group_by="function", limit=20, points=2,
                              **{"selection.range.end_unix_ns": round(chart["times"][at] * 1000) * 1000000,
                                 "selection.filter.frames": "application"})
        wanted = {series["group"]["function"]: series["values"][-1] for series in answer["series"]}
        shown = {area["label"]: area["values"][at] for area in chart["areas"] if area["label"] != "other"}
        self.assertGreater(len(shown), 4)
        for function, value in shown.items():
            self.assertEqual(value, wanted.get(function, 0), function)
        heap = [moment["heap"] for moment in chart["moments"]]
        self.assertGreater(heap[-1], 1 << 20)
        self.assertGreater(min(bytes for bytes in heap if bytes is not None), 1 << 20)

    def test_a_leak_has_an_area_of_its_own_before_any_click(self):
        self.wait_sessions()
        self.open()
        self.wait_groups("function")
        self.browser.wait_for("memprofd.charts()[0].areas.some((a) => a.label === 'Demo_server.Sessions.make_session')")
        self.assertEqual("true", self.js("document.querySelector('#charts [data-value=function]').getAttribute('aria-pressed')"))

    def test_drills_from_module_to_callstacks_and_back(self):
        self.wait_recorded(4)
        self.open(f"pid={self.server.pid}&by=module")
        self.browser.wait_for("memprofd.charts()[0].areas.length > 0")
        self.click_area("Demo_server")
        self.wait_groups("function")
        self.browser.wait_for("""memprofd.charts()[0].areas.every((a) => /^(other|Demo_server|Demo_server[.].*)$/.test(a.label))""")
        self.click_area("Demo_server.Sessions.make_session")
        self.wait_groups("site")
        self.browser.wait_for("memprofd.charts()[0].areas.length === 1")
        self.assertRegex(self.labels()[0], r"^Demo_server\.Sessions\.make_session:\d+$")
        self.click_area(self.labels()[0])
        self.wait_groups("callstack")
        self.assertIn("Demo_server.Sessions.make_session ← Demo_server.Sessions.remember", self.labels()[0])
        self.click_area(self.labels()[0])  # its frames
        self.assertIn("Demo_server.Server.respond", self.text(".chart-legend .frames"))
        self.assertEqual(self.text(".drill-path").split("\n")[:2], ["All", "Demo_server"])
        self.js("history.back()")
        self.wait_groups("site")
        self.press("All", ".drill-path")
        self.wait_groups("module")
        self.assertEqual(self.labels(), ["Demo_server"])
        self.assertEqual(self.view()["filter"], {})

    def filter_of(self, by, **parts):
        """Of the view after a click on a group; None: there is no way into it."""
        site = {"function": "", "file": "", "line": 0, "module": "", "library": "", "thread": 0, "domain": 0,
                "callstack": [], **parts}
        view = self.js(f"memprofd.drilled({json.dumps(site)}, {json.dumps(by)})")
        return view and view["filter"]

    def test_a_filter_for_each_kind_of_group(self):
        self.open()
        pattern = self.filter_of("module", module="Shop")["pattern"]
        found = [name for name in ("Shop", "Shop.sell", "Shop.Cart.add", "Shopping.go", "shop.ml", "A.Shop.f")
                 if re.search(pattern, name)]
        self.assertEqual(found, ["Shop", "Shop.sell", "Shop.Cart.add"], "the unit's own code is a part of it")
        self.assertIsNone(self.filter_of("module", module="server.exe"), "code that is not OCaml: no pattern finds it")
        self.assertIsNone(self.filter_of("library", library="libc.so.6"))
        self.assertEqual(self.filter_of("thread", thread=7), {"threads": ["7"]})
        self.assertEqual(self.filter_of("domain", domain=0), {"domains": ["0"]})
        self.assertEqual(self.filter_of("file", file="a+b.ml"), {"pattern": r"^a\+b\.ml$"})
        self.assertIsNone(self.filter_of("file"))
        self.assertEqual(self.filter_of("site", function="F.f", file="f.ml", line=3), {"pattern": r"^f\.ml:3$"})
        self.assertEqual(self.filter_of("site", function="F.f"), {"pattern": r"^F\.f$"})

    def test_the_legend_drills_with_the_keyboard(self):
        self.open(f"pid={self.server.pid}&by=module")
        self.wait_element(".chart-legend li button")
        self.js("[...document.querySelectorAll('.chart-legend li button')].find((b) => b.innerText.startsWith('Demo_server')).focus()")
        self.browser.key("Enter")
        self.wait_groups("function")

    def test_measures_and_groups(self):
        self.open(f"pid={self.server.pid}&m=allocated&by=file")
        self.browser.wait_for("memprofd.charts()[0].areas.some((a) => a.label.endsWith('demo_server.ml'))")
        # "0 B/s" where the program was not given the processor in the last step.
        self.browser.wait_for(r"/± [\d.]+\/s$/.test(document.querySelector('.chart-legend .number').innerText)")
        self.press("Thread")
        self.browser.wait_for("memprofd.charts()[0].areas.some((a) => /^thread \\d+$/.test(a.label))")

    def test_what_history_cannot_answer_is_said(self):
        self.open(f"pid={self.server.pid}&f.min_lifetime_seconds=1")
        self.assertIn("Lifetime conditions are omitted", self.text(".chart-note"))
        self.open()
        self.assertTrue(self.js("document.querySelector('.chart-note').hidden"))

    def test_a_pattern_that_is_none_is_said(self):
        self.browser.navigate(self.url + "/", f"#pid={self.server.pid}&f.pattern=%28")
        self.wait_element(".chart-message:not([hidden])")
        self.assertIn("pattern", self.text(".chart-message"))
        self.browser.errors[:] = [e for e in self.browser.errors if "status of 400" not in e]

    def test_another_program_on_the_same_axis(self):
        self.wait_recorded(4)
        self.open()
        self.press("+ Compare chart")
        self.browser.wait_for("memprofd.charts().length === 2 && memprofd.charts()[1].points > 1")
        self.js(f"""(() => {{ const s = document.querySelector("#charts .others select[aria-label=Program]");
            s.value = "{self.other.pid}"; s.dispatchEvent(new Event("change")); }})()""")
        self.browser.wait_for(f"memprofd.view().charts[0].pid === {self.other.pid}")
        boxes = self.js("""[...document.querySelectorAll(".u-over")].map((e) => { const b = e.getBoundingClientRect();
            return [b.left, b.right]; })""")
        self.assertEqual(boxes[0], boxes[1])  # times are above each other

        def points():  # again until it is seen: a chart that is drawn anew forgets the pointer
            over = self.box(OVER)
            self.browser.move(over["x"] + over["width"] * 0.5, over["y"] + 20)
            charts = self.js("memprofd.charts()")
            return all(chart["pointed"] is not None for chart in charts) and charts
        charts = harness.eventually(points, "the other chart points at the same moment")
        first, second = (chart["times"][chart["pointed"]] for chart in charts)
        self.assertLess(abs(first - second), 2.5)
        self.browser.resize(1280, 1340)
        self.picture("page-compare")
        self.press("Remove")
        self.browser.wait_for("memprofd.charts().length === 1")

    def test_no_width_makes_the_page_scroll_sideways(self):
        for width, height, scheme in ((390, 844, "light"), (390, 844, "dark"), (1280, 900, "dark"), (1366, 768, "light"),
                                      (1920, 1080, "dark"), (900, 700, "light")):
            self.browser.resize(width, height)
            self.browser.emulate_media(prefers_color_scheme=scheme)
            for tab in ("sites", "flame", "callers", "values"):
                with self.subTest(width=width, tab=tab):
                    self.open(f"pid={self.server.pid}&tab={tab}" + ("&m=allocated&x.callers.of=respond" if tab == "callers" else ""))
                    self.check_width(width)
            self.open(f"pid={self.server.pid}&tab=sites")
            self.browser.wait_for("memprofd.sites()?.rows.length > 0")
            self.js("document.querySelector('.sites-row').click()")
            self.browser.wait_for("!document.querySelector('.site-detail').hidden")
            self.check_width(width)

    def check_width(self, width):
        """Nothing is beyond the window: neither the page nor what scrolls by itself, tables of numbers aside."""
        self.assertLessEqual(self.js("document.documentElement.scrollWidth"), width)
        beyond = self.js(f"""[...document.querySelectorAll("main *")].filter((e) => {{
            const b = e.getBoundingClientRect();
            return b.width > 0 && b.right > {width} + 1 && !e.closest(".u-wrap, .unseen, .pages, .heaps-tables"); }})
            .map((e) => e.outerHTML.slice(0, 100))""")
        self.assertEqual(beyond, [])

    def test_the_legend_is_whole(self):
        """The last row too, at the height at which it was cut."""
        for width, height in ((1280, 900), (390, 844), (1920, 1080)):
            self.browser.resize(width, height)
            self.open()
            self.browser.wait_for("document.querySelector('#charts .chart-legend dl').innerText.includes('heap')")
            cut = self.js("""[...document.querySelectorAll("#charts .chart-legend")].filter((e) => e.scrollHeight > e.clientHeight + 1).length""")
            self.assertEqual(cut, 0, f"{width} x {height}")

    def test_no_name_of_an_area_or_of_a_part_is_cut(self):
        """A long name takes another line; on a narrow window the time axis has several times."""
        for width, height in ((1280, 900), (390, 844), (1920, 1080)):
            with self.subTest(width=width):
                self.browser.resize(width, height)
                self.open()
                self.browser.wait_for("document.querySelectorAll('#charts .chart-legend .name').length > 3")
                self.wait_element("#memory .part-name")
                cut = self.js("""[...document.querySelectorAll(".chart-legend .name, .part-name")].filter((e) => e.offsetParent !== null &&
                    (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1)).map((e) => e.innerText)""")
                self.assertEqual(cut, [])

    def test_in_a_narrow_window_the_end_of_a_name_is_shown(self):
        self.browser.resize(390, 844)
        self.open()
        self.wait_element(".sites-row .name bdi")
        hidden = self.js("""[...document.querySelectorAll(".sites-row .site-name span")].filter((e) =>
            e.firstChild.getBoundingClientRect().right > e.getBoundingClientRect().right + 1).map((e) => e.innerText)""")
        self.assertEqual(hidden, [])

    def test_the_first_view_has_the_answer_at_every_width(self):
        """Without scrolling, before the chart: whether something leaks and, of the first suspect, where and since when."""
        for width, height in ((1280, 900), (390, 844), (1920, 1080)):
            with self.subTest(width=width):
                self.browser.resize(width, height)
                self.open()
                self.browser.wait_for("memprofd.verdict() !== null")
                bottom, top = self.js("""[(document.querySelector("#verdict li") ?? document.querySelector("#verdict p"))
                    .getBoundingClientRect().bottom, document.querySelector("#charts").getBoundingClientRect().top]""")
                self.assertLess(bottom, height)
                self.assertLess(bottom, top)

    def test_two_axes_say_what_is_on_them(self):
        """What the areas are parts of is on their axis; where the heap has its own, both have names, and the legend says so."""
        self.open(f"pid={self.server.pid}&m=allocated")
        self.browser.wait_for("document.querySelector('#charts .chart-legend dl').innerText.includes('right axis')")
        self.assertEqual(self.js("[...document.querySelectorAll('#charts .u-axis')].length"), 3)
        facts = self.text("#charts .chart-legend dl")
        self.assertIn("heap, right axis", facts)
        self.assertIn("live, all, right axis", facts)
        self.open(f"pid={self.server.pid}&m=live")
        self.browser.wait_for("document.querySelector('#charts .chart-legend dl').innerText.includes('live, all')")
        self.assertNotIn("live, all, right axis", self.text("#charts .chart-legend dl"))


class Time(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.wait_recorded(cls(), 12)

    def strip(self, share):
        box = self.box(".strip")
        return box["x"] + box["width"] * share, box["y"] + box["height"] / 2

    def times(self):
        return self.chart()["times"]

    def assert_within(self, value, before, after, delta):
        """The present goes on from before a gesture to after it, some seconds on a busy machine."""
        self.assertLessEqual(before - delta, value)
        self.assertLessEqual(value, after + delta)

    def test_live_moves(self):
        self.open()
        before = self.times()[-1]
        self.browser.wait_for(f"memprofd.charts()[0].times.at(-1) > {before} + 2")

    def test_pause_loses_nothing(self):
        self.open()
        self.browser.key(" ")
        view = self.view()
        self.assertFalse(view["live"])
        self.assertIn("recording continues", self.text(".time-bar .state"))
        paused = self.times()[-1]
        self.wait_past(view["end"] / 1000 + 5)
        self.browser.settle()
        self.assertEqual(self.view()["end"], view["end"])
        self.assertLessEqual(self.times()[-1], view["end"] / 1000 + 1)
        self.browser.key(" ")
        self.assertTrue(self.view()["live"])
        self.browser.wait_for(f"memprofd.charts()[0].times.at(-1) > {paused} + 4")
        times = [time for time in self.times() if time > paused - 2]
        self.assertLess(max(b - a for a, b in zip(times, times[1:])), 3)  # no hole

    def wait_past(self, unix_seconds):
        harness.eventually(lambda: int(self.history(points=2)["range"]["end_unix_ns"]) / 1e9 > unix_seconds,
                           "time goes by")

    def test_the_strip_goes_anywhere_in_the_past(self):
        self.open()
        chosen = lambda: self.js("(({begin, now}) => begin + 0.4 * (now - begin))(memprofd.recorded())") / 1000
        before = chosen()
        self.browser.drag(self.strip(0.8), self.strip(0.4))
        view = self.view()
        self.assertFalse(view["live"])
        self.assert_within(seconds(view), before, chosen(), 1.5)
        self.assertRegex(self.text(".time-bar .state"), r"^At \d\d:\d\d:\d\d, [\d.]+ \w+ ago")
        # Numbers are of that moment.
        then = self.history(points=2, **{"selection.range.end_unix_ns": int(view["end"]) * 1000000})["points"][-1]["live_bytes"]
        self.wait_element(".chart-legend dd")
        shown = re.match(r"([\d.]+) MiB", self.text(".chart-legend dd"))
        self.assertAlmostEqual(float(shown[1]) * 2**20, then, delta=0.15 * then + 1e6)
        self.browser.key("l")
        self.assertTrue(self.view()["live"])

    def test_keys_of_the_strip(self):
        self.open()
        self.js("document.querySelector('.strip').focus()")
        self.browser.key("ArrowLeft")
        first = self.view()
        self.assertFalse(first["live"])
        self.browser.key("ArrowLeft")
        self.assertLessEqual(self.view()["end"], first["end"] - 1000)
        self.browser.key("Home")
        self.assertAlmostEqual(self.view()["end"], self.js("memprofd.recorded().begin"), delta=1000)
        self.browser.wait_for("memprofd.sites() !== null")  # memprofd refuses a range that ends at the attach
        self.assertEqual(self.js("document.querySelector('.strip').getAttribute('role')"), "slider")
        self.browser.key("End")
        self.assertTrue(self.view()["live"])

    def test_replay_runs_up_to_the_present(self):
        self.open()
        self.js("""(() => { const s = document.querySelector("select[aria-label='Replay speed']");
            s.value = "60"; s.dispatchEvent(new Event("change")); })()""")
        self.press("▶ Replay")
        began = self.view()
        self.assertFalse(began["live"])
        self.browser.wait_for(f"memprofd.view().live || memprofd.view().end > {began['end']} + 5000")
        self.browser.wait_for("memprofd.view().live")

    def test_a_range_is_counted_and_compared(self):
        self.open()
        over = self.box(OVER)
        at = lambda share: (over["x"] + over["width"] * share, over["y"] + over["height"] * 0.5)
        on_axis = lambda axis, share: axis["begin"] + share * (axis["end"] - axis["begin"])
        axis = self.js("memprofd.axis()")
        self.browser.drag(at(0.6), at(0.9))
        view, later = self.view(), self.js("memprofd.axis()")
        width = axis["end"] - axis["begin"]
        for name, share in (("begin", 0.6), ("end", 0.9)):
            self.assert_within(view[name], on_axis(axis, share), on_axis(later, share), 0.05 * width + 2500)
        self.wait_element(".ranges .chip.chosen")
        self.press("Compare with before")
        compare = self.view()["compare"]
        self.assertEqual(compare["end"], self.view()["begin"])
        self.assertIn("compared with", self.text(".ranges"))
        self.press("Zoom to it")
        zoomed = self.view()["axis"]
        self.assertLess(zoomed["end"] - zoomed["begin"], width)
        self.press("Fit")
        self.browser.resize(1280, 920)
        self.picture("page-range")
        self.press("● Go live")
        self.assertNotIn("end", self.view())

    def test_zoom_with_keys_and_wheel(self):
        self.open()
        width = lambda: self.js("memprofd.axis().end - memprofd.axis().begin")
        before = width()
        self.browser.key("+")
        self.assertAlmostEqual(width(), max(2000, before / 2), delta=before * 0.1 + 100)
        self.browser.key("0")
        self.browser.wait_for("memprofd.view().axis === undefined")
        over = self.box(OVER)
        self.browser.call("Input.dispatchMouseEvent", type="mouseWheel", x=over["x"] + over["width"] / 2,
                          y=over["y"] + 50, deltaX=0, deltaY=-120, modifiers=2)
        self.browser.wait_for("memprofd.view().axis !== undefined")
        self.assertLess(width(), before)

    def test_a_link_reproduces_the_view(self):
        self.open(f"pid={self.server.pid}&by=function&m=live&f.pattern=Demo_server")
        self.browser.drag(self.strip(0.9), self.strip(0.5))
        self.browser.wait_for("memprofd.charts()[0].areas.length > 1")
        link, view, head = self.js("memprofd.link()"), self.view(), self.text(".chart-legend-head")
        self.browser.navigate(link)
        self.browser.wait_for("window.memprofd && memprofd.charts()[0].points > 1")
        again = self.view()
        self.assertAlmostEqual(again["end"], view["end"], delta=1)
        for name in ("pid", "live", "groupBy", "measure", "filter", "span", "tab"):
            self.assertEqual(again[name], view[name], name)
        self.browser.wait_for(f"document.querySelector('.chart-legend-head').innerText === {json.dumps(head)}")

    def test_a_link_to_what_is_live_stays_at_that_moment(self):
        self.open()
        self.assertRegex(self.js("memprofd.link()"), r"live=0&end=\d{13}")


class Saving(PageTest):
    def setUp(self):
        super().setUp()
        self.wait_recorded(4)
        self.saved = self.folder / self.id().rsplit(".", 1)[1]
        self.saved.mkdir()
        self.browser.save_downloads(self.saved)
        self.open()

    def save(self, exporter, timeout=harness.TIMEOUT):
        """Chooses it in the menu; returns the file."""
        self.press("Export", "#actions")
        self.wait_element(f'[data-export="{exporter}"]:not(:disabled)')
        self.browser.click_on(f'[data-export="{exporter}"]')
        done = lambda: [f for f in self.saved.iterdir() if f.suffix != ".crdownload" and f.stat().st_size > 0]
        return harness.eventually(done, f"{exporter} is saved", timeout=timeout)[0]

    def test_chart_as_svg(self):
        self.open(f"pid={self.server.pid}&by=function")
        file = self.save("chart-svg")
        self.assertEqual(file.name, f"demo_server-{self.server.pid}-memory.svg")
        root = xml.etree.ElementTree.parse(file).getroot()
        texts = [element.text for element in root.iter(SVG + "text")]
        self.assertIn(f"demo_server (pid {self.server.pid}): live by function", texts)
        self.assertIn("Demo_server.Sessions.make_session", texts)
        self.assertGreater(len(list(root.iter(SVG + "polygon"))), 2)

    def test_a_chart_is_xml_whatever_the_program_is_called(self):
        program = self.start_named("<\x01&\"'>")
        self.wait_recorded(4, program.pid)
        self.open(f"pid={program.pid}")
        root = xml.etree.ElementTree.parse(self.save("chart-svg")).getroot()
        self.assertRegex(root.find(SVG + "title").text, "^<.&\"'> \\(pid")
        self.daemon.detach(program.pid)

    def test_chart_as_png(self):
        data = self.save("chart-png").read_bytes()
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(int.from_bytes(data[16:20], "big"), 2400)
        self.assertGreater(len(data), 20_000)  # not an empty picture

    def test_chart_as_csv(self):
        rows = list(csv.DictReader(self.save("chart-csv").read_text().splitlines()))
        function = "Demo_server.Sessions.make_session"
        self.assertIn(function, {row["group"] for row in rows})
        last = [row for row in rows if row["group"] == function][-1]
        self.assertGreater(float(last["value"]), 2 * float(last["stderr"]))
        self.assertGreater(float(last["stderr"]), 0)

    def test_profiles(self):
        self.assertGreater(len(gzip.decompress(self.save("pprof").read_bytes())), 1000)

    def test_collapsed(self):
        lines = self.save("collapsed").read_text().splitlines()
        self.assertTrue(any("Demo_server.Sessions.make_session" in line for line in lines))
        self.assertTrue(all(re.fullmatch(r".+ \d+", line) for line in lines))

    def test_speedscope(self):
        frames = json.loads(self.save("speedscope").read_text())["shared"]["frames"]
        self.assertIn("Demo_server.Cache.copy", {frame["name"] for frame in frames})

    def test_flame_graph_as_html(self):
        self.assertIn("Demo_server.Cache.copy", self.save("html").read_text())

    def test_trace(self):
        file = self.save("trace-10")
        self.assertEqual(file.name, f"demo_server-{self.server.pid}-10s.ctf")
        report = harness.memprofctl("report", file)
        self.assertEqual("", report.stderr)
        self.assertIn("Demo_server.Cache.copy", report.stdout)

    def test_a_trace_is_of_the_memory_that_the_filter_names(self):
        """The server's C memory is not followed, and it is said so."""
        self.expected_errors = (*self.expected_errors, "409 (Conflict)")
        self.js("memprofd.update({filter: {heap: 'c'}})")
        self.press("Export", "#actions")
        self.wait_element('[data-export="trace-10"]:not(:disabled)')
        self.browser.click_on('[data-export="trace-10"]')
        self.browser.wait_for("document.querySelector('#notice').innerText.includes(\"the native heap is not followed\")")

    def test_the_menu_is_for_the_keyboard_too(self):
        self.js("[...document.querySelectorAll('#actions button')].find((b) => b.innerText === 'Export').focus()")
        self.browser.key("Enter")
        self.assertEqual(self.js("document.activeElement.dataset.export"), self.js(
            "document.querySelector('#export-menu button').dataset.export"))
        self.browser.key("ArrowDown")
        self.assertNotEqual(self.js("document.activeElement.dataset.export"), self.js(
            "document.querySelector('#export-menu button').dataset.export"))
        self.browser.key("Escape")
        self.assertTrue(self.js("document.querySelector('#export-menu').hidden"))
        self.assertEqual(self.js("document.activeElement.innerText"), "Export")


class Keyboard(PageTest):
    def test_help_opens_and_closes(self):
        self.open()
        self.browser.key("?")
        self.assertTrue(self.js("document.querySelector('#help').open"))
        self.assertIn("pause", self.text("#help"))
        self.browser.key("Escape")
        self.browser.wait_for("!document.querySelector('#help').open")

    def test_keys_do_nothing_while_typing(self):
        self.open()
        self.js("document.querySelector('#overview input, #search input').focus()")
        self.js("document.querySelector('#search input').focus()")
        self.browser.key(" ")
        self.browser.key("r")
        self.assertTrue(self.view()["live"])

    def test_everything_can_be_reached(self):
        """Each control takes the focus, and says what it is."""
        self.open()
        nameless = self.js("""[...document.querySelectorAll("button, select, input, [role=slider]")].filter((e) =>
            e.offsetParent !== null && !(e.innerText?.trim() || e.ariaLabel || e.getAttribute("aria-label") ||
            e.labels?.length)).map((e) => e.outerHTML.slice(0, 120))""")
        self.assertEqual(nameless, [])


class Pictures(PageTest):
    """Kept for the documents, and looked at by people."""

    def test_pictures(self):
        self.wait_recorded(25)
        for scheme in ("light", "dark"):
            self.browser.emulate_media(prefers_color_scheme=scheme)
            self.browser.resize(1280, 1180)
            self.open()
            self.wait_element("#sites tbody tr, #sites [role=row]")
            self.browser.wait_for("document.querySelector('#overview td:nth-child(4)')?.innerText.includes('/s')")
            # So early the answer may still be that memory grows; with more history, for the documents, the site is named.
            self.browser.wait_for("memprofd.verdict()?.kind === 'leak'" if PICTURE_SECONDS else "memprofd.verdict() !== null")
            self.picture(f"page-{scheme}")
