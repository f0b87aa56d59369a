#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Renews the pictures of the page in the documents: make pictures.

  pictures.py [--seconds 180] [--only page-sites]... [--out docs/pictures]

A test of the page takes each picture (PageTest.picture), so it shows a page that passes. --seconds is the
length of history on it. Check the result before committing it. render_dashboards.py makes the pictures of
the Grafana dashboards.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The test that makes each picture.
TESTS = {
    "page-light": "test_page.Pictures",
    "page-compare": "test_page.Charts.test_another_program_on_the_same_axis",
    "page-range": "test_page.Time.test_a_range_is_counted_and_compared",
    "page-sites": "test_page_sites.Sites.test_details_of_a_site",
    "page-difference": "test_page_sites.Flame.test_what_is_new_stands_out",
    "page-flame": "test_page_sites.Flame.test_tooltip",
    "page-callers": "test_page_sites.Callers.test_lists_are_what_memprofd_says",
    "page-values": "test_page_values.Values.test_plots_share_the_axis_with_memory",
}


def shown_in_documents():
    """Names of the pictures of the page in the documents."""
    return {name for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
            for name in re.findall(r"pictures/(page-[\w-]+)\.png", path.read_text())}


def make(names, folder, seconds):
    """Runs the tests of these pictures; False if one failed."""
    build = pathlib.Path(os.environ.get("MEMPROFD_BUILD", ROOT / "build")).resolve()
    environment = dict(os.environ, MEMPROFD_PICTURES=str(folder), MEMPROFD_PICTURE_SECONDS=str(seconds),
                       MEMPROFD_BUILD=str(build),
                       PYTHONPATH=os.pathsep.join((str(HERE), str(HERE.parent / "kit"))))
    tests = [TESTS[name] for name in names]
    done = subprocess.run([sys.executable, "-m", "unittest", *tests], env=environment, cwd=HERE, check=False)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--only", action="append", choices=sorted(TESTS), help="this picture; repeatable")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/pictures")
    arguments = parser.parse_args()
    names = arguments.only or sorted(TESTS)
    with tempfile.TemporaryDirectory(prefix="memprofd-pictures-") as folder:
        passed = make(names, folder, arguments.seconds)
        made = [name for name in names if pathlib.Path(folder, f"{name}.png").exists()]
        for name in made:
            shutil.copy(pathlib.Path(folder, f"{name}.png"), arguments.out / f"{name}.png")
    missing = sorted(set(names) - set(made))
    if missing:
        print(f"not made: {', '.join(missing)}; see the failures above", file=sys.stderr)
    sys.exit(not passed or bool(missing))


if __name__ == "__main__":
    main()
