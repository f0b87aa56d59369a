# SPDX-License-Identifier: Apache-2.0
"""memprofctl over TLS, and certificates that memprofd refuses at its start and while it runs."""

import os
import shutil
import subprocess
import unittest

import harness
from harness import E2ETest, eventually, free_port

AUTHORITY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@unittest.skipUnless(shutil.which("openssl"), "no openssl")
class TlsCase(E2ETest):
    def setUp(self):
        super().setUp()
        self.pem = self.folder / "pem"
        self.pem.mkdir()
        self.authority("ca")
        for name in ("localhost", "ops", "looker"):
            self.certificate(name, "ca")

    def openssl(self, *arguments):
        subprocess.run(["openssl", *map(str, arguments)], cwd=self.pem, check=True, capture_output=True)

    def authority(self, name):
        self.openssl("req", "-x509", *AUTHORITY, "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")

    def certificate(self, name, authority, *validity):
        (self.pem / "ext").write_text(f"subjectAltName=DNS:{name}\n")
        self.openssl("req", *AUTHORITY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        if not validity:
            self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
                         "-CAcreateserial", "-days", "2", "-extfile", "ext", "-out", f"{name}.pem")
            return
        for file in ("index", "index.attr"):
            (self.pem / file).write_text("")
        (self.pem / "ca.conf").write_text("[ca]\ndefault_ca=one\n[one]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\n"
                                          "default_md=sha256\npolicy=any\nunique_subject=no\n[any]\ncommonName=supplied\n")
        self.openssl("ca", "-batch", "-notext", "-config", "ca.conf", "-cert", f"{authority}.pem", "-keyfile", f"{authority}.key",
                     "-startdate", validity[0], "-enddate", validity[1], "-extfile", "ext", "-in", f"{name}.csr", "-out", f"{name}.pem")

    def grpc_options(self, certificate="localhost", key="localhost"):
        self.grpc = free_port()
        return ("--grpc.listen-address", f"127.0.0.1:{self.grpc}", f"--grpc.tls.cert-file={self.pem}/{certificate}.pem",
                f"--grpc.tls.key-file={self.pem}/{key}.key", f"--grpc.tls.client-ca-file={self.pem}/ca.pem",
                "--grpc.controllers", "ops")

    def ask(self, *command, name="ops", ca="ca", scheme="https://", env=None):
        """memprofctl with the address, and the certificate of that name."""
        tls = [f"--tls.ca={self.pem}/{ca}.pem"] if ca else []
        if name:
            tls += [f"--tls.cert={self.pem}/{name}.pem", f"--tls.key={self.pem}/{name}.key"]
        return subprocess.run([harness.BUILD / "memprofctl", "--address", f"{scheme}localhost:{self.grpc}", *tls, *map(str, command)],
                              capture_output=True, text=True, timeout=harness.TIMEOUT, stdin=subprocess.DEVNULL, check=False,
                              env={**os.environ, **(env or {})})

    def says(self, answer, code, *words):
        self.assertEqual(code, answer.returncode, answer.stderr)
        self.assert_one_line(answer.stderr, *words)


class Asking(TlsCase):
    def test_certificates(self):
        """Clients without a certificate are refused; the name in a certificate decides about
        control."""
        target = self.target("known_alloc")
        self.daemon(*self.grpc_options())
        self.assertEqual(0, self.ask("targets").returncode)
        self.says(self.ask("attach", "--pid", target.pid, name="looker"), harness.PRIVILEGES, "--grpc.controllers")
        attached = self.ask("attach", "--pid", target.pid)
        self.assertEqual(0, attached.returncode, attached.stderr)
        self.says(self.ask("targets", name=None), harness.UNAVAILABLE, "TLS", "--tls.cert")
        target.exit()

    def test_environment(self):
        self.daemon(*self.grpc_options())
        env = {"MEMPROFD_ADDRESS": f"https://localhost:{self.grpc}", "MEMPROFD_TLS_CA": str(self.pem / "ca.pem"),
               "MEMPROFD_TLS_CERT": str(self.pem / "ops.pem"), "MEMPROFD_TLS_KEY": str(self.pem / "ops.key")}
        answer = subprocess.run([harness.BUILD / "memprofctl", "targets", "-o", "json"], capture_output=True, text=True, check=False,
                                timeout=harness.TIMEOUT, env={**os.environ, **env})
        self.assertEqual((0, ""), (answer.returncode, answer.stderr))
        self.assertIn('"targets"', answer.stdout)

    def test_refusals(self):
        """Each refusal names the mismatch and the remedy."""
        self.daemon(*self.grpc_options())
        self.authority("other")
        verify = ("localhost", "is not signed by a CA in --tls.ca")
        self.says(self.ask("targets", ca="other"), harness.UNAVAILABLE, *verify)
        self.says(self.ask("targets", ca=None, name=None), harness.UNAVAILABLE, *verify)
        self.says(self.ask("targets", ca=None, name=None, scheme=""), harness.UNAVAILABLE, "may require TLS", "--address https://")
        self.says(self.ask("targets", scheme="http://"), harness.USAGE, "http://", "write https://")
        self.says(self.ask("targets", ca="missing"), harness.USAGE, "missing.pem", "cannot be read")
        self.says(self.ask("targets", "--tls.key", self.pem / "looker.key"), harness.USAGE, "--tls.key", "is not the key of")
        half = {"MEMPROFD_TLS_CERT": str(self.pem / "ops.pem")}
        self.says(self.ask("targets", name=None, env=half), harness.USAGE, "--tls.cert and --tls.key belong together")
        self.says(self.ask("targets", scheme="ftp://"), harness.USAGE, "https://HOST:PORT")

    def test_server_without_tls(self):
        self.grpc = free_port()
        self.daemon("--grpc.listen-address", f"127.0.0.1:{self.grpc}")
        self.says(self.ask("targets"), harness.UNAVAILABLE, "do not agree on TLS", "--grpc.tls.cert-file")
        for scheme in ("", "http://"):
            answer = self.ask("targets", ca=None, name=None, scheme=scheme)
            self.assertEqual(0, answer.returncode, answer.stderr)


class Refused(TlsCase):
    """Certificates that no client would accept end memprofd at its start, for gRPC and for HTTP."""

    def refusals(self):
        self.certificate("expired", "ca", "20200101000000Z", "20200102000000Z")
        self.certificate("early", "ca", "20900101000000Z", "20900102000000Z")
        (self.pem / "odd.pem").write_text("no certificate")
        (self.pem / "odd.key").write_text("no key")
        return [("localhost", "ops", "ops.key", "is not the key of"), ("expired", "expired", "expired at 2020-01-02", "renew it"),
                ("early", "early", "not valid before 2090-01-01", "clock"), ("odd", "localhost", "odd.pem", "is not a PEM file"),
                ("localhost", "odd", "odd.key", "is not a PEM file"), ("missing", "localhost", "missing.pem", "cannot be read")]

    def refused(self, words, *options):
        daemon = self.daemon(*options, wait=False)
        self.assertEqual(harness.USAGE, daemon.wait(), daemon.stderr())
        for word in words:
            self.assertIn(word, daemon.stderr())

    def test_grpc(self):
        for certificate, key, *words in self.refusals():
            with self.subTest(certificate=certificate, key=key):
                self.refused(("--grpc.tls.", *words), *self.grpc_options(certificate, key))

    def test_web(self):
        config = self.folder / "web.yml"
        for certificate, key, *words in self.refusals():
            with self.subTest(certificate=certificate, key=key):
                config.write_text(f"tls_server_config: {{cert_file: {self.pem}/{certificate}.pem, key_file: {self.pem}/{key}.key}}\n")
                self.refused((*words[:1],), "--web.config.file", config)


class Renewed(TlsCase):
    def replace(self, certificate, key):
        for source, name in ((certificate, "localhost.pem"), (key, "localhost.key")):
            shutil.copy(self.pem / source, self.pem / "new")
            (self.pem / "new").rename(self.pem / name)

    def test_the_old_one_stays_until_a_good_one_comes(self):
        daemon = self.daemon(*self.grpc_options())
        self.replace("localhost.pem", "ops.key")
        eventually(lambda: "keeping the previous certificates of gRPC" in daemon.said(), "the foreign key is refused")
        self.assertIn("is not the key of", daemon.said())
        self.assertEqual(0, self.ask("targets").returncode)
        self.authority("next")
        self.certificate("localhost", "next")
        def renewed():
            return self.ask("targets", ca="next").returncode == 0
        eventually(renewed, "the new certificate is shown")
        self.assertEqual(1, daemon.said().count("keeping the previous"), "said once for each refusal")
