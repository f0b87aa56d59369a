# SPDX-License-Identifier: Apache-2.0
"""The release of `make dist`, installed in roots of several Debian releases, profiles a program.

Debian 12 and 13 always; 11 (glibc 2.31, refused) and forky with make test-dist.
"""

import os
import pathlib
import re
import shutil
import ssl
import subprocess
import urllib.request

import grpc

import answers
import harness
from containers import Contained, files
from harness import BUILD, MATRIX, ROOT, E2ETest, Process, eventually, free_port, http_get, sum_sites

BASES = {}  # suite to folder that roots are copied from


def base(suite):
    if suite not in BASES:
        script = ROOT / "tests/targets/debian-prefix.sh"
        done = subprocess.run([script, f"{suite}-base"], capture_output=True, text=True, check=False, timeout=600)
        if done.returncode != 0:
            raise AssertionError(f"{suite} cannot be had: {done.stderr[-2000:]}")
        BASES[suite] = pathlib.Path(done.stdout.strip())
    return BASES[suite]


class Root:
    """A root of a Debian release in which commands run, with the machine's /proc, /sys and /dev."""

    ENTER = 'for name in proc sys dev; do mount --rbind "/$name" "$0/$name" || exit; done; exec chroot "$0" "$@"'

    def __init__(self, suite, path):
        shutil.copytree(base(suite), path, symlinks=True)
        for name in ("sys", "run", "etc", "var/lib"):
            (path / name).mkdir(parents=True, exist_ok=True)
        # Test programs of newer releases find libraries where compile-with.sh installed them.
        compiled_with = path / str(base(suite).with_name(suite)).lstrip("/")
        compiled_with.parent.mkdir(parents=True, exist_ok=True)
        compiled_with.symlink_to("/")
        self.path = path

    def command(self, *arguments):
        return ["unshare", "--mount", "sh", "-c", self.ENTER, self.path, *arguments]

    def run(self, *arguments, check=True):
        done = subprocess.run([*map(str, self.command(*arguments))], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=harness.TIMEOUT)
        if check and done.returncode != 0:
            raise AssertionError(f"{arguments} ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done


class Dist(E2ETest):
    RATE = 1e-3

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run(["make", "--no-print-directory", f"BUILD={BUILD}", "dist-files"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
        cls.archive = subprocess.run([ROOT / "deploy/dist.sh", BUILD], capture_output=True, text=True, check=True).stdout.strip()

    def unpack(self, suite):
        root = Root(suite, self.folder / suite)
        subprocess.run(["tar", "-xf", self.archive, "-C", root.path / "tmp"], check=True)
        (release,) = (root.path / "tmp").glob("memprofd-*")
        root.installer = f"/tmp/{release.name}/install.sh"
        return root

    def certificates(self, folder):
        """Files of a self-signed certificate for localhost."""
        folder.mkdir()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                        "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
        (folder / "web.yml").write_text("tls_server_config:\n  cert_file: /etc/tls/cert.pem\n  key_file: /etc/tls/key.pem\n")
        return folder / "cert.pem"

    def start(self, root, *options):
        """A memprofd with TLS on both ports, and with a state directory."""
        self.web, self.grpc = free_port(), free_port()
        tls = [f"--grpc.tls.{name}=/etc/tls/{file}.pem"
               for name, file in (("cert-file", "cert"), ("key-file", "key"), ("client-ca-file", "cert"))]
        daemon = self.process(Process(root.command(
            "/usr/local/sbin/memprofd", "--web.listen-address", f"127.0.0.1:{self.web}", "--web.config.file", "/etc/tls/web.yml",
            "--grpc.listen-address", f"127.0.0.1:{self.grpc}", *tls, "--grpc.socket", "/run/memprofd.sock",
            "--state.directory", "/var/lib/memprofd", "--sampling-rate", self.RATE, "--max-overhead", "none",
            "--cpu.max", "none", *options)))
        def ready():
            if not daemon.running():
                raise RuntimeError(f"memprofd ended with {daemon.wait()}: {daemon.stderr()}")
            return self.ctl(root, "info", check=False).returncode == 0
        eventually(ready, "memprofd becomes ready")
        return daemon

    def ctl(self, root, *arguments, check=True):
        return root.run("/usr/local/bin/memprofctl", "--grpc.socket", "/run/memprofd.sock", *arguments, check=check)

    def wait_sampled(self, root, target):
        def sampled():
            target.command("minor")
            found = answers.answer(self.ctl(root, "targets", "-o", "json").stdout)["targets"]
            return {"pid": target.pid, "state": "sampling"} in [{key: one[key] for key in ("pid", "state")} for one in found]
        eventually(sampled, f"pid {target.pid} is sampled")

    def check_profiles(self, suite, programs):
        root = self.unpack(suite)
        before = set(files(root.path))
        self.assertIn("memprofd --pid PID", root.run(root.installer).stdout)
        certificate = self.certificates(root.path / "etc/tls")
        shutil.copy2(programs / "known_alloc", root.path / "tmp")
        target = self.process(Contained(root.command(), "/tmp/known_alloc"))
        daemon = self.start(root, "--pid", str(target.pid))
        self.wait_sampled(root, target)
        allocated = target.command("stat")["sites"]["site_small"]["allocated_words"]
        truth = target.command("go 4")["sites"]["site_small"]["allocated_words"] - allocated
        self.assertGreater(truth, 0)

        def estimated():
            sites = answers.answer(self.ctl(root, "sites", "--pid", target.pid, "-o", "json").stdout)["sites"]
            self.assert_estimate("site_small", sum_sites(sites, "site_small")["allocated_bytes"], truth, self.RATE)
            return True
        eventually(estimated, "all of it is counted")
        self.check_tls(certificate, target.pid)
        self.check_heap(root, target)
        self.check_resumes(root, daemon, target)
        root.run(root.installer, "--uninstall")
        shutil.rmtree(root.path / "etc/tls")
        left = {path for path in set(files(root.path)) - before if not (root.path / path).is_dir()}
        self.assertEqual({"tmp/known_alloc"}, {path for path in left if not path.startswith(("var/lib/memprofd/", "tmp/a."))})

    def check_tls(self, certificate, pid):
        """Checks the page, metrics (with their own TLS) and gRPC (with OpenSSL)."""
        context = ssl.create_default_context(cafile=certificate)
        def get(path):
            with urllib.request.urlopen(f"https://localhost:{self.web}{path}", context=context, timeout=harness.TIMEOUT) as answer:
                return answer.read().decode()
        self.assertIn("<title>memprofd", get("/"))
        self.assertIn("</html>", get("/"))
        self.assertGreater(harness.Metrics(get("/metrics")).value("memprofd_samples_total", pid=pid, event="alloc"), 0)
        with self.assertRaises(OSError):
            http_get(f"http://localhost:{self.web}/metrics")
        pem, key = certificate.read_bytes(), certificate.with_name("key.pem").read_bytes()
        with grpc.secure_channel(f"localhost:{self.grpc}", grpc.ssl_channel_credentials(pem, key, pem)) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            self.assertEqual(b"\x08\x01", check(b"", timeout=harness.TIMEOUT))  # SERVING

    def check_heap(self, root, target):
        """SQLite reads the file of a heap snapshot."""
        taking = self.process(Process(root.command(
            "/usr/local/bin/memprofctl", "--grpc.socket", "/run/memprofd.sock", "snapshot", "take", "--pid", target.pid,
            "--out", "/tmp/a.heap", "--max-pause", "10s")))
        eventually(lambda: target.command("minor") and not taking.running(), "the snapshot is taken")
        self.assertEqual(0, taking.wait(), taking.stderr())
        query = "SELECT COUNT(*) AS number FROM blocks"
        counted = root.run("/usr/local/bin/memprofctl", "snapshot", "query", "/tmp/a.heap", query).stdout
        self.assertGreater(int(re.search(r"\d+", counted).group()), 200_000, "those that site_live keeps")

    def check_resumes(self, root, daemon, target):
        daemon.kill()
        again = self.start(root)
        self.wait_sampled(root, target)  # without a new attach
        self.assertEqual(0, again.stop())
        target.exit()

    def test_debian_12(self):
        self.check_profiles("bookworm", BUILD / "targets")

    def test_debian_13(self):
        self.check_profiles("trixie", BUILD / "targets-trixie")

    def test_a_service_of_systemd(self):
        """Uses a systemctl that records its arguments."""
        root = self.unpack("trixie")
        (root.path / "run/systemd/system").mkdir(parents=True)
        systemctl, log = root.path / "usr/bin/systemctl", root.path / "tmp/log"
        systemctl.write_text('#!/bin/sh\necho "$*" >> /tmp/log\n')
        systemctl.chmod(0o755)
        before = set(files(root.path))
        unit, settings = root.path / "etc/systemd/system/memprofd.service", root.path / "etc/default/memprofd"
        said = root.run(root.installer).stdout
        self.assertIn("systemctl enable --now memprofd", said)
        self.assertEqual("daemon-reload\ntry-restart memprofd.service\n", log.read_text())
        self.assertTrue((root.path / "usr/local/lib/systemd/system/memprofd.service").is_file())
        self.assertFalse(os.path.lexists(unit), "systemd looks in /usr/local by itself")
        self.assertIn("MEMPROFD_OPTIONS", settings.read_text())
        log.unlink()
        said = root.run(root.installer, "--uninstall").stdout
        self.assertEqual("disable --now memprofd.service\ndaemon-reload\n", log.read_text())
        log.unlink()
        self.assertNotIn("left as it is yours", said)

        (root.path / "opt/memprofd").mkdir(parents=True)
        settings.write_text('MEMPROFD_OPTIONS="--name shop-*"\n')
        root.run(root.installer, "/opt/memprofd")
        self.assertEqual("/opt/memprofd/lib/systemd/system/memprofd.service", os.readlink(unit))
        self.assertIn("ExecStart=/opt/memprofd/sbin/memprofd ", (root.path / os.readlink(unit).lstrip("/")).read_text())
        self.assertIn("left as it is yours: /etc/default/memprofd", root.run(root.installer, "--uninstall", "/opt/memprofd").stdout)
        self.assertIn("shop-*", settings.read_text(), "what was written there stays")
        settings.unlink()
        log.unlink()
        self.assertEqual(set(), {path for path in set(files(root.path)) - before if not (root.path / path).is_dir()})

    if MATRIX:
        def test_debian_11_is_refused(self):
            root = self.unpack("bullseye")
            before = set(files(root.path))
            done = root.run(root.installer, check=False)
            self.assertEqual(1, done.returncode)
            self.assert_one_line(done.stderr, "glibc 2.31 is too old", "2.34 or later")
            self.assertEqual(before, set(files(root.path)))

        def test_forky(self):
            self.check_profiles("forky", BUILD / "targets")
