# SPDX-License-Identifier: Apache-2.0
"""Evaluates dashboards as Grafana does: resolves variables, fills them into queries,
and sends the queries to a Prometheus.

The rules of Grafana's Prometheus data source that matter here:
- A variable with several or all values becomes a regular expression with escaped
  special characters and alternatives in parentheses; "All" is its allValue.
- A variable with one value becomes that value with escaped backslashes.
- query_result(...) returns lines `{label="value",...} value time`, from which the
  variable's regex takes the groups `value` and `text`, or its only group.
"""

import dataclasses
import json
import pathlib
import re
import subprocess
import tempfile
import urllib.parse

import harness
from harness import Process, http_get

FOLDER = harness.ROOT / "dashboards" / "grafana" / "dashboards"
RULES = harness.ROOT / "dashboards" / "prometheus"
SPECIAL = re.compile(r"[$^*{}\[\]'+?.()|]")


class Prometheus(Process):
    """A Prometheus with its own storage that scrapes memprofds."""

    def __init__(self, folder, ports, rules=RULES, interval="1s"):
        folder = pathlib.Path(folder) / "prometheus"
        folder.mkdir()
        self.port = harness.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        config = folder / "prometheus.yml"
        config.write_text(json.dumps({  # JSON is YAML
            "global": {"scrape_interval": interval, "evaluation_interval": interval},
            "rule_files": [str(rules / "rules.yml"), str(rules / "alerts.yml")],
            "scrape_configs": [{"job_name": "memprofd", "static_configs": [
                {"targets": [f"127.0.0.1:{port}" for port in ports]}]}]}))
        super().__init__(["/usr/bin/prometheus", f"--config.file={config}",
                          f"--storage.tsdb.path={folder}/data",
                          f"--web.listen-address=127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL)
        self.client = Client(self.url)


class Client:
    """Asks a Prometheus."""

    def __init__(self, url):
        self.url = url

    def get(self, path, **parameters):
        """The data of an API answer; AssertionError with Prometheus's message otherwise."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        try:
            status, body = http_get(url, timeout=30)
        except OSError as error:
            raise AssertionError(f"Prometheus does not answer: {error}") from None
        try:
            answer = json.loads(body)
        except ValueError:  # while Prometheus starts, it answers in plain text
            raise AssertionError(f"Prometheus answers {status}: {body}") from None
        if status != 200 or answer["status"] != "success":
            raise AssertionError(f"{parameters}: {answer.get('error')}")
        return answer["data"]

    def query(self, expression, time=None):
        return self.get("query", query=expression, **({} if time is None else {"time": time}))["result"]

    def query_range(self, expression, start, end, step):
        return self.get("query_range", query=expression, start=start, end=end, step=step)["result"]


# ---------------------------------------------------------------- dashboards


def dashboards(folder=FOLDER):
    """[(file name, dashboard)], in the order of names."""
    return [(f.name, json.loads(f.read_text())) for f in sorted(folder.glob("*.json"))]


def panels_of(dashboard):
    """All panels that show data, including those inside collapsed rows."""
    for panel in dashboard["panels"]:
        if panel["type"] != "row":
            yield panel
        yield from panel.get("panels", [])


def targets_of(dashboard):
    for panel in panels_of(dashboard):
        for target in panel["targets"]:
            yield panel, target


# ---------------------------------------------------------------- variables


def escaped_regex(value):
    return SPECIAL.sub(lambda match: "\\\\" + match.group(0), value.replace("\\", "\\\\\\\\"))


def interpolated(variable, value):
    """The text of a variable's value in a query; value is a list if several are selected."""
    if not variable.get("multi") and not variable.get("includeAll"):
        return value.replace("\\", "\\\\")
    if value == "$__all":
        return variable["allValue"]
    values = [escaped_regex(v) for v in ([value] if isinstance(value, str) else value)]
    return values[0] if len(values) == 1 else "(" + "|".join(values) + ")"


def filled_in(expression, values):
    """Replaces Grafana's variables; AssertionError when one is left."""
    def replace(match):
        name = match.group(1) or match.group(2)
        if name not in values:
            raise AssertionError(f"unknown variable {name} in {expression}")
        return values[name]
    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", replace, expression)


def query_result_line(series):
    labels = dict(series["metric"])
    name = labels.pop("__name__", "")
    text = ",".join(f'{k}="{v}"' for k, v in sorted(labels.items()))
    time, value = series["value"]
    return f"{name}{{{text}}} {value} {int(float(time) * 1000)}"


def options_of(variable, values, prometheus, start, end):
    """[(text, value)] that a query variable offers."""
    query = variable["query"]["query"]
    match = re.fullmatch(r"label_values\((.*), (\w+)\)", query)
    if match:
        found = prometheus.get(f"label/{match.group(2)}/values", start=start, end=end,
                               **{"match[]": filled_in(match.group(1), values)})
        return [(v, v) for v in found]
    match = re.fullmatch(r"query_result\((.*)\)", query)
    if not match:
        raise AssertionError(f"{variable['name']}: no query that the Prometheus data source knows: {query}")
    lines = [query_result_line(s) for s in prometheus.query(filled_in(match.group(1), values), time=end)]
    regex = re.compile(variable["regex"].strip("/").replace("(?<", "(?P<"))
    found = [m.groupdict() or {"text": m.group(1), "value": m.group(1)} for m in map(regex.search, lines) if m]
    options = list(dict.fromkeys((m["text"], m["value"]) for m in found))
    return options if variable["sort"] == 0 else sorted(options)


@dataclasses.dataclass
class Resolved:
    """Variables of a dashboard: their values in queries, and their texts in its head."""
    values: dict
    shown: dict


def selected(variable, offered, wanted):
    """[(text, value)] of the selection, as in Grafana: the wanted value, else the dashboard's
    own selection, else the first option. "All" is ("All", "$__all")."""
    value = wanted if wanted is not None else variable.get("current", {}).get("value")
    if value in ("$__all", ["$__all"]):
        return [("All", "$__all")]
    if not offered:
        raise AssertionError(f"variable {variable['name']} has no values")
    if value is None:
        return [offered[0]]
    texts = {v: text for text, v in offered}
    chosen = [value] if isinstance(value, str) else value
    if not set(chosen) <= set(texts):
        raise AssertionError(f"variable {variable['name']}: {value} is not among {list(texts)}")
    return [(texts[v], v) for v in chosen]


def resolve(dashboard, prometheus, wanted, start, end, builtin):
    """wanted: values of some variables, by name; builtin: Grafana's own, such as __rate_interval."""
    resolved = Resolved({"__range": f"{int(end - start)}s", **builtin}, {})
    for variable in dashboard["templating"]["list"]:
        name = variable["name"]
        if variable["type"] == "datasource":
            resolved.values[name] = "prometheus"
            continue
        if variable["type"] == "query":
            offered = options_of(variable, resolved.values, prometheus, start, end)
        else:
            offered = [(option["text"], option["value"]) for option in variable["options"]]
        chosen = selected(variable, offered, wanted.get(name))
        values = [value for _, value in chosen]
        resolved.values[name] = interpolated(variable, values[0] if len(values) == 1 else values)
        resolved.shown[variable["label"]] = ", ".join(text for text, _ in chosen)
    return resolved
