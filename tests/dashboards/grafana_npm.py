#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The npm packages that generate, check and draw the Grafana dashboards.

dashboards/grafana-src/package-lock.json pins them. They are not in the repository: the
first use fetches them into the build folder. As a program, this file generates the
dashboards.
"""

import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kit"))

import harness  # noqa: E402

SOURCE = harness.ROOT / "dashboards" / "grafana-src"
FOLDER = harness.BUILD / "grafana"
TIMEOUT = 300  # seconds


def run(*command):
    """Runs a command in the build's copy of the sources; returns its output."""
    try:
        done = subprocess.run([str(c) for c in command], cwd=FOLDER, capture_output=True, text=True,
                              timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AssertionError(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {(done.stdout + done.stderr).strip()[-4000:]}")
    return done.stdout


def modules():
    """The folder of the packages; AssertionError when they are missing and cannot be fetched."""
    lock = (SOURCE / "package-lock.json").read_bytes()
    stamp = FOLDER / "installed"
    wanted = hashlib.sha256(lock).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(SOURCE / name, FOLDER / name)
        try:
            run("npm", "ci", "--silent", "--no-audit", "--no-fund")
        except AssertionError as error:
            raise AssertionError(f"the packages that check the dashboards cannot be had, so nothing was checked: {error} "
                                 "(needs npm and, once, a network with the npm registry)") from None
        stamp.write_text(wanted)
    return FOLDER / "node_modules"


def compile_sources():
    """Type-checks and compiles the dashboards' sources; returns the folder of the scripts."""
    packages = modules()
    for file in FOLDER.glob("*.ts"):
        file.unlink()
    for file in [*SOURCE.glob("*.ts"), SOURCE / "tsconfig.json"]:
        shutil.copy(file, FOLDER / file.name)
    run("node", packages / "typescript" / "bin" / "tsc")
    return FOLDER / "out"


def generate(folder):
    """Writes the dashboards into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    run("node", compile_sources() / "generate.js", folder)


def schema_errors(dashboards):
    """Checks dashboards, {name: JSON text}, against Grafana's published types. Returns {name: errors} for those
    with errors."""
    packages = modules()
    folder = FOLDER / "check"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SOURCE / "check", folder)
    shutil.copy(SOURCE / "tsconfig.json", FOLDER / "tsconfig.json")
    (folder / "tsconfig.json").write_text(
        '{"extends": "../tsconfig.json", "compilerOptions": {"noEmit": true}, "include": ["*.ts"]}')
    for name, text in dashboards.items():
        (folder / f"{name}.ts").write_text("import { ImportedDashboard } from './schema';\n"
                                           f"export const dashboard: ImportedDashboard = {text};\n")
    done = subprocess.run(["node", packages / "typescript" / "bin" / "tsc", "--pretty", "false", "-p", folder],
                          cwd=FOLDER, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    errors = {}
    for line in done.stdout.splitlines():
        match = re.match(r"(?:check/)?([\w-]+)\.ts\(", line)
        if match:
            errors.setdefault(match.group(1), []).append(line)
    if done.returncode != 0 and not errors or "schema" in errors:
        raise AssertionError(f"the check itself failed: {done.stdout}{done.stderr}")
    return {name: "\n".join(lines) for name, lines in errors.items()}


if __name__ == "__main__":
    generate(harness.ROOT / "dashboards" / "grafana" / "dashboards")
