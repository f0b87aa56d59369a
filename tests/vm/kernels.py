#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""memprofd on other kernels than this one: make test-kernels.

  tests/vm/kernels.py [--build FOLDER] [--at-once N] [--seconds N] [SUITE...]    default: all of them

Boots the kernels of Debian's releases in qemu, with an initramfs that holds memprofd, programs to profile and the tests of
tests/vm/guest.py, which tell what came of them by the serial ports. Closes with a table, and
"N passed, M failed, K skipped". Logs are in FOLDER/test-logs. Two guests at once take some ten minutes of two processors
where they are emulated.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import initramfs  # noqa: E402
import run  # noqa: E402

SUITES = ("bullseye", "bookworm", "trixie", "trixie-backports")
GUEST_SECONDS = 420
MEMORY_MIB = 1536
PORTS = ("console", "tests", "report", "kernel-log")  # ttyS0 and so on
# A boot that comes to nothing is tried once more: emulated processors have faults of their own.
BOOTS = 2
BEGUN = "guest begins"
# What a kernel says that something has broken.
BROKEN = re.compile(r"BUG:|Oops|WARNING:|general protection fault|Kernel panic")
# It stands still for as long as the machine that emulates it has no processor for it: no sign of a fault.
ARGUMENTS = "console=ttyS0 rdinit=/init quiet panic=-1 mitigations=off nosoftlockup rcupdate.rcu_cpu_stall_suppress=1"
HERE = pathlib.PurePosixPath("/memprofd")  # in the guest
PROGRAMS = ("memprofd", "memprofctl", "libmemprof_agent.so", "tests/kernel_tests", "targets/busy_threads",
            "targets/known_alloc", "targets/forks", "targets-trixie/domains", "targets-trixie/known_alloc")
SOURCES = ("tests/run.py", "tests/outcomes.py", "tests/tsan.py", "tests/fuzz/fuzz.py", "tests/kit/harness.py", "tests/kit/answers.py", "tests/vm/guest.py")
# Folders of Python's library that no test needs.
NOT_OF_PYTHON = ("test", "idlelib", "lib2to3", "tkinter", "ensurepip", "dist-packages", "__pycache__", "pydoc_data")

INIT = f"""#!/bin/sh
export PATH=/bin:/usr/bin HOME=/root PYTHONDONTWRITEBYTECODE=1
export MEMPROFD_GUEST=1 MEMPROFD_TIMEOUT=120 MEMPROFD_BUILD={HERE}/build
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
mount -t securityfs security /sys/kernel/security
mount -t tracefs trace /sys/kernel/tracing
ip link set lo up
echo '{BEGUN}' > /dev/ttyS1
python3 {HERE}/tests/run.py --module {HERE}/tests/vm/guest.py --report /report.json > /dev/ttyS1 2>&1
cat /report.json > /dev/ttyS2
dmesg > /dev/ttyS3
echo o > /proc/sysrq-trigger
sleep 60
"""


# ---------------------------------------------------------------- what is in the guest


def python_files():
    """Its library, with the libraries that its modules in C need."""
    where = subprocess.run(["/usr/bin/python3", "-c", "import sysconfig as s; print(s.get_path('stdlib'))"],
                           capture_output=True, text=True, check=True)
    return pathlib.Path(where.stdout.strip())


def write_initramfs(build, path):
    with open(path, "wb") as out:
        archive = initramfs.Initramfs(out)
        for folder in ("/dev", "/proc", "/sys", "/tmp", "/run", "/root"):
            archive.folder(folder)
        archive.file("/bin/busybox")
        for applet in ("sh", "mount", "umount", "ip", "cat", "dmesg", "sleep"):
            archive.link(f"/bin/{applet}", "busybox")
        archive.text("/init", INIT, 0o755)
        archive.text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        archive.program(pathlib.Path("/usr/bin/python3").resolve(), "/usr/bin/python3")
        library = python_files()
        archive.tree(library, NOT_OF_PYTHON)
        for module in (library / "lib-dynload").glob("*.so"):
            archive.program(module)
        with tempfile.TemporaryDirectory() as stripped:
            for name in PROGRAMS:
                archive.program(build / name, HERE / "build" / name, strip_into=stripped)
        for name in SOURCES:
            archive.file(ROOT / name, HERE / name)
        archive.close()


# ---------------------------------------------------------------- a guest


def accelerated():
    """Whether the processor has what KVM needs; without that there may be a /dev/kvm that cannot run a kernel."""
    flags = re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return os.access("/dev/kvm", os.R_OK | os.W_OK) and bool({"vmx", "svm"} & set(flags.group(1).split()))


def qemu(kernel, archive, logs):
    """Without cmpxchg16b, which qemu 7.2 is suspected to emulate wrongly."""
    machine = ["-accel", "kvm", "-cpu", "host"] if accelerated() else ["-accel", "tcg", "-cpu", "max,-cx16"]
    command = ["qemu-system-x86_64", *machine, "-smp", "2" if accelerated() else "1", "-m", str(MEMORY_MIB), "-display", "none",
               "-no-reboot", "-net", "none", "-monitor", "none", "-kernel", kernel, "-initrd", archive,
               "-append", ARGUMENTS]
    for port in PORTS:
        command += ["-serial", f"file:{logs[port]}"]
    return command


def boot(suite, kernel, archive, build, seconds):
    """Returns the logs by port, when the guest has switched itself off or its time is over."""
    logs = {port: build / "test-logs" / f"kernel-{suite}-{port}.log" for port in PORTS}
    for log in logs.values():
        log.unlink(missing_ok=True)
    try:
        # A session of its own: a fair share of the processors, whatever else is started from this terminal.
        ended = subprocess.run(qemu(kernel, archive, logs), stdin=subprocess.DEVNULL, timeout=seconds, check=False,
                               start_new_session=True)
        if ended.returncode != 0:
            print(f"{suite}: qemu ended with {ended.returncode}", flush=True)
    except subprocess.TimeoutExpired:
        print(f"{suite}: not done after {seconds} s", flush=True)
    return {port: log.read_text(errors="replace") if log.exists() else "" for port, log in logs.items()}


def outcome_of(said):
    """What the tests and the kernel have said, as an outcome of tests/run.py."""
    try:
        outcome = run.Outcome(**json.loads(said["report"]))
    except (ValueError, TypeError):
        outcome = run.Outcome(failed=1, notes=["no report"])
    broken = [line.strip() for line in (said["kernel-log"] + said["console"]).splitlines() if BROKEN.search(line)]
    if broken:
        outcome.failed += 1
        outcome.notes.append(f"the kernel said: {broken[0]}")
    return outcome


def test_kernel(suite, build, archive, seconds):
    """(version, outcome)"""
    found = subprocess.run([ROOT / "tests/vm/debian-kernel.sh", suite], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        print(f"{suite}: {found.stderr.strip()}", flush=True)
        return suite, run.Outcome(failed=1, notes=["no kernel"])
    kernel = pathlib.Path(found.stdout.strip())
    version = (kernel.parent / "release").read_text().strip()
    began = time.monotonic()
    for _ in range(BOOTS):
        said = boot(suite, kernel, archive, build, seconds)
        if BEGUN in said["tests"]:
            break
    outcome = outcome_of(said)
    outcome.skipped = [f"{version}: {skip}" for skip in outcome.skipped]
    print(f"{version:<32}{outcome.passed:>4} passed {outcome.failed:>3} failed {len(outcome.skipped):>3} skipped "
          f"{time.monotonic() - began:>7.1f} s", flush=True)
    if outcome.failed:
        print("\n".join(said[port][-10_000:] for port in ("console", "tests")), flush=True)
    return version, outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="guests that run at the same time")
    parser.add_argument("--seconds", type=int, default=GUEST_SECONDS, metavar="N", help="that a guest may take")
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    arguments = parser.parse_args()
    suites = arguments.suites or SUITES
    unknown = [suite for suite in suites if suite not in SUITES]
    if unknown:
        sys.exit(f"kernels.py: no {', '.join(unknown)}; there are {', '.join(SUITES)}")
    if shutil.which("qemu-system-x86_64") is None:
        sys.exit("kernels.py: no qemu-system-x86_64: install the group with deploy/install-deps.sh kernels")
    build = pathlib.Path(arguments.build).resolve()
    (build / "test-logs").mkdir(parents=True, exist_ok=True)
    archive = build / "kernels.cpio"
    write_initramfs(build, archive)
    with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as pool:
        results = list(pool.map(lambda suite: test_kernel(suite, build, archive, arguments.seconds), suites))
    archive.unlink()
    for version, outcome in results:
        print(f"{version}: {', '.join(outcome.notes)}")
    return run.close(run.added_up([outcome for _, outcome in results]))


if __name__ == "__main__":
    sys.exit(main())
