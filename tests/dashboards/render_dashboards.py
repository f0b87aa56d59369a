#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws Grafana dashboards without Grafana, for the documentation.

  render_dashboards.py --prometheus URL --out FOLDER [--minutes 30] [--theme dark]
                       [--set program=shop]... [--width 1280] [--height 640] [--only memprofd-gc]
                       [--suffix -head]

It sends every panel's queries to the Prometheus as Grafana would (grafana.py), and
a page in headless Chromium draws the answers: time series with uPlot, the rest with
the scripts in render/. Numbers, series, units, colours and layout are those of the
dashboards; the style is similar to Grafana's. It needs the npm packages that
grafana_npm.py fetches. Debian's pngquant, if installed, shrinks the pictures to a third.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[0:0] = [str(HERE), str(HERE.parent / "kit")]

import grafana  # noqa: E402
import grafana_npm  # noqa: E402
from browser import Browser  # noqa: E402

SCRIPTS = ("format", "model", "chart", "panels", "page")
NOTE = ("Queries answered by a Prometheus that scraped memprofd; drawn by tests/dashboards/render_dashboards.py "
        "with uPlot, not by Grafana. Times are UTC.")
PAGE = """<!doctype html><meta charset="utf-8"><style>{css}</style><body>
<script type="application/json" id="data">{data}</script><script>{scripts}</script>"""


def results_of(panel, values, prometheus, moment):
    """One list of series for each of the panel's queries."""
    for target in panel["targets"]:
        expression = grafana.filled_in(target["expr"], values)
        if target.get("instant"):
            yield prometheus.query(expression, time=moment["end"])
        else:
            yield prometheus.query_range(expression, moment["start"], moment["end"], moment["step"])


def data_of(dashboard, prometheus, moment, chosen, theme):
    single = {v["name"] for v in dashboard["templating"]["list"] if not v.get("includeAll")}
    own = {k: v for k, v in chosen.items() if k in single}
    resolved = grafana.resolve(dashboard, prometheus, own, moment["start"], moment["end"],
                               {"__rate_interval": f"{max(60, moment['step'] + 15)}s"})
    panels = [dict(panel, results=list(results_of(panel, resolved.values, prometheus, moment)))
              if panel["type"] != "row" else panel for panel in dashboard["panels"]]
    return {"title": dashboard["title"], "variables": resolved.shown, "panels": panels,
            "time": moment, "theme": theme, "note": NOTE}


def write_page(data, path):
    uplot = grafana_npm.modules() / "uplot" / "dist"
    text = json.dumps(data).replace("</", "<\\/")
    scripts = "\n".join([(uplot / "uPlot.iife.min.js").read_text(),
                         *((HERE / "render" / f"{name}.js").read_text() for name in SCRIPTS)])
    css = (uplot / "uPlot.min.css").read_text() + (HERE / "render" / "page.css").read_text()
    path.write_text(PAGE.format(css=css, data=text, scripts=scripts))


def draw(browser, page, picture, width, height):
    """Writes the picture of a page; height 0: the whole page."""
    browser.resize(width, 900)
    browser.navigate(page)
    if browser.errors:
        raise AssertionError(f"{page}: {browser.errors}")
    browser.wait_for("document.body.dataset.done")
    browser.resize(width, height or browser.evaluate("document.documentElement.scrollHeight"))
    browser.screenshot(picture)
    if shutil.which("pngquant"):
        subprocess.run(["pngquant", "--force", "--ext", ".png", "--skip-if-larger", "128", picture], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--prometheus", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--theme", choices=("dark", "light"), default="dark")
    parser.add_argument("--set", action="append", default=[], help="value of a variable that has no All: name=value")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=0, help="only so much of the top")
    parser.add_argument("--only", help="uid of the dashboard")
    parser.add_argument("--suffix", default="", help="of the pictures' names")
    arguments = parser.parse_args()
    chosen = dict(pair.split("=", 1) for pair in arguments.set)
    step = max(5, round(arguments.minutes * 60 / 240 / 5) * 5)
    end = int(time.time()) // step * step
    moment = {"start": end - int(arguments.minutes * 60), "end": end, "step": step}
    prometheus = grafana.Client(arguments.prometheus)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        for name, dashboard in grafana.dashboards():
            if arguments.only not in (None, dashboard["uid"]):
                continue
            page = arguments.out / f".{name}.html"
            write_page(data_of(dashboard, prometheus, moment, chosen, arguments.theme), page)
            draw(browser, page, arguments.out / f"grafana-{dashboard['uid'].split('-')[1]}{arguments.suffix}.png",
                 arguments.width, arguments.height)
            page.unlink()


if __name__ == "__main__":
    main()
