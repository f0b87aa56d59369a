# SPDX-License-Identifier: Apache-2.0
"""HTTP controls a real memprofd and records traces of real programs."""

import base64
import http.client
import json
import threading
import time

import answers
import harness
from api import ask, post
from harness import E2ETest, eventually, memprofctl

# Hash of "s3cret".
WEB_CONFIG = "basic_auth_users:\n  alice: $2b$04$abcdefghijklmnopqrstuuLZYjhNQAOdpbzt4WxWlUHjv1wsyH5DG\n"
ALICE = {"Authorization": "Basic " + base64.b64encode(b"alice:s3cret").decode()}
RECORDINGS_AT_ONCE = 10  # of one address over HTTP, of 16 (daemon/util/user_slots.h)


class HttpControl(E2ETest):
    def allows_control(self, daemon, **headers):
        status, text = ask(daemon, "GET", "/api/v1/server", headers=headers)
        self.assertEqual(200, status)
        return json.loads(text)["control"]

    def test_is_off_by_default(self):
        target = self.target("demo_server", "--self-load", "1")
        daemon = self.daemon()
        self.assertIs(self.allows_control(daemon), False)
        for what in ("attach", "rate", "detach"):
            status, said = post(daemon, what, pid=target.pid, sampling_rate=1e-4)
            self.assertEqual(403, status)
            self.assertIn("--web.enable-control", said)
        self.assertEqual([], json.loads(ask(daemon, "GET", "/api/v1/targets")[1])["targets"])

    def test_does_what_memprofctl_does(self):
        target = self.target("demo_server", "--self-load", "1")
        daemon = self.daemon("--web.enable-control")
        self.assertIs(self.allows_control(daemon), True)
        status, text = post(daemon, "attach", pid=target.pid, sampling_rate=1e-3)
        self.assertEqual(200, status, text)
        self.assertEqual(target.pid, json.loads(text)["target"]["pid"])
        daemon.wait_state(target.pid, "sampling")
        status, text = post(daemon, "rate", pid=target.pid, sampling_rate=2e-3)
        self.assertEqual(200, status, text)
        self.assertEqual(2e-3, json.loads(text)["target"]["sampling_rate"])
        eventually(lambda: daemon.sites(target.pid), "it is sampled")
        status, text = post(daemon, "detach", pid=target.pid)
        self.assertEqual(200, status, text)
        self.assertEqual("TARGET_STATE_DETACHED", json.loads(text)["target"]["state"])
        self.assertTrue(target.running())

    def test_who_was_detached_can_be_attached_to_at_once(self):
        """Also during an inspection of the program, which is detached first."""
        target = self.target("steady")
        daemon = self.daemon("--web.enable-control", rate=1e-4)
        for moment in range(0, 120, 6):
            attach = threading.Thread(target=post, args=(daemon, "attach"), kwargs={"pid": target.pid})
            attach.start()
            time.sleep(moment / 1000)
            post(daemon, "detach", pid=target.pid)  # may arrive before the other
            with self.subTest(milliseconds=moment):
                status, text = post(daemon, "attach", pid=target.pid)
                attach.join()
                self.assertTrue(status == 200 or "already profiled by this memprofd" in text, text)
            post(daemon, "detach", pid=target.pid)
        self.assert_works_on(target)

    def test_errors_are_one_line(self):
        daemon = self.daemon("--web.enable-control")
        for what, body, expected in (("attach", {"pid": daemon.popen.pid}, 409), ("attach", {"pid": 4194303}, 404),
                                     ("detach", {"pid": 4194303}, 404), ("rate", {"pid": 1, "sampling_rate": 3}, 400),
                                     ("attach", {"pid": -1}, 400), ("attach", {"program": "x"}, 400)):
            with self.subTest(what=what, **body):
                status, said = post(daemon, what, **body)
                self.assertEqual(expected, status, said)
                self.assertEqual(1, said.count("\n"), said)

    def test_other_machines_need_a_password(self):
        refused = self.process(harness.Process(
            [harness.BUILD / "memprofd", "--web.listen-address", "0.0.0.0:0", "--web.enable-control",
             "--grpc.socket", self.folder / "refused.sock"]))
        self.assertNotEqual(0, refused.wait())
        self.assert_one_line(refused.stderr(), "--web.enable-control", "--web.config.file")
        config = self.folder / "web.yml"
        config.write_text(WEB_CONFIG)
        daemon = self.daemon("--web.enable-control", "--web.config.file", config, wait=False)
        eventually(lambda: self.answers(daemon), "memprofd becomes ready")
        self.assertEqual(401, post(daemon, "detach", pid=1)[0])
        self.assertEqual(404, post(daemon, "detach", ALICE, pid=4194303)[0])
        self.assertIs(self.allows_control(daemon, **ALICE), True)

    def test_a_refused_request_is_logged_with_its_process(self):
        config = self.folder / "web.yml"
        config.write_text(WEB_CONFIG)
        daemon = self.daemon("--web.enable-control", "--web.config.file", config, "--web.controllers", "bob", wait=False)
        eventually(lambda: self.answers(daemon), "memprofd becomes ready")
        self.assertEqual(403, post(daemon, "attach", ALICE, pid=1)[0])
        eventually(lambda: "pid 1: /api/v1/attach by " in daemon.stderr(), "it is logged")

    @staticmethod
    def answers(daemon):
        try:
            return ask(daemon, "GET", "/-/ready", headers=ALICE)[0] == 200
        except OSError:
            return False


class HttpTrace(E2ETest):
    RATE = 1e-3

    def attached(self):
        self.known = self.target("known_alloc")
        self.memprofd = self.daemon("--pid", self.known.pid, rate=self.RATE)
        self.sample_on_command(self.memprofd, self.known)

    def begin(self, seconds):
        """A recording that has begun: its connection and response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.memprofd.port, timeout=harness.TIMEOUT)
        self.addCleanup(connection.close)
        connection.request("POST", f"/api/v1/trace?pid={self.known.pid}&seconds={seconds}",
                           headers={"X-Memprofd-Control": "1"})
        return connection, connection.getresponse()

    def test_records_what_happens_in_that_time(self):
        self.attached()
        began = time.monotonic()
        _, response = self.begin(4)
        self.assertEqual(200, response.status)
        self.assertEqual(f'attachment; filename="memprofd-{self.known.pid}.ctf"',
                         response.headers["Content-Disposition"])
        self.known.command("go 1", timeout=120)
        path = self.folder / "a.ctf"
        path.write_bytes(response.read())
        self.assertGreaterEqual(time.monotonic() - began, 4)
        sites = answers.answer(memprofctl("sites", path, "-n", 0, "-o", "json").stdout)["sites"]
        self.assertEqual("", memprofctl("report", path).stderr)
        live = harness.sum_sites(sites, "site_live")["allocated_bytes"]
        self.assert_estimate("site_live", live, 200_000 * 5, self.RATE)

    def test_ends_with_the_program(self):
        self.attached()
        _, response = self.begin(600)
        self.known.command("go 1", timeout=120)
        self.known.kill()
        path = self.folder / "a.ctf"
        path.write_bytes(response.read())
        self.assertIn("site_live", memprofctl("report", path).stdout)

    def test_a_client_that_goes_makes_room(self):
        self.attached()
        begun = [self.begin(600) for _ in range(RECORDINGS_AT_ONCE)]
        self.assertEqual({200}, {response.status for _, response in begun})
        self.assertEqual(429, self.begin(600)[1].status)
        for connection, response in begun:
            response.close()
            connection.close()
        def room():
            self.known.command("go 1", timeout=120)  # it is visible once there is data to send
            connection, response = self.begin(600)
            response.close()
            connection.close()
            return response.status == 200
        eventually(room, "there is room for another recording", timeout=120)

    def test_memprofd_stops_while_it_records(self):
        """The client then has a complete answer."""
        self.attached()
        _, response = self.begin(600)
        self.known.command("go 1", timeout=120)
        self.assertEqual(0, self.memprofd.stop())
        path = self.folder / "a.ctf"
        path.write_bytes(response.read())
        self.assertIn("site_live", memprofctl("report", path).stdout)


if __name__ == "__main__":
    import unittest
    unittest.main()
