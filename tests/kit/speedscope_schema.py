# SPDX-License-Identifier: Apache-2.0
"""The schema of speedscope's file format, from the npm package of speedscope.

It is not ours to store: the first use fetches it with `npm pack` into the build folder, later ones
find it there.
"""

import json
import pathlib
import subprocess
import tarfile
import tempfile

import harness

PACKAGE = "speedscope@1.25.0"
MEMBER = "package/dist/release/file-format-schema.json"
FETCH_TIMEOUT = 120  # seconds


def schema():
    """The schema; AssertionError if it can be neither found nor fetched."""
    cached = harness.BUILD / "cache" / (PACKAGE.replace("@", "-") + "-schema.json")
    if not cached.exists():
        text = fetch()
        json.loads(text)
        cached.parent.mkdir(parents=True, exist_ok=True)
        unfinished = cached.with_suffix(".part")
        unfinished.write_bytes(text)
        unfinished.rename(cached)
    return json.loads(cached.read_text())


def fetch():
    with tempfile.TemporaryDirectory(prefix="memprofd-test-") as folder:
        try:
            done = subprocess.run(["npm", "pack", PACKAGE, "--silent"], cwd=folder, capture_output=True,
                                  text=True, timeout=FETCH_TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise unavailable(error) from None
        if done.returncode != 0:
            raise unavailable(done.stderr.strip() or f"npm ended with {done.returncode}")
        (package,) = pathlib.Path(folder).glob("*.tgz")
        with tarfile.open(package) as files:
            return files.extractfile(MEMBER).read()


def unavailable(why):
    return AssertionError(f"speedscope's schema cannot be had, so nothing was checked against it: npm pack "
                          f"{PACKAGE}: {why} (needs npm and, once, a network with the npm registry)")
