# SPDX-License-Identifier: Apache-2.0
"""The messages of the API for tests of other languages than C++."""

import importlib
import subprocess
import sys

import harness


def message_modules(folder, *protos):
    """Python modules of the messages in .proto files, made by protoc."""
    subprocess.run(["protoc", f"-I{harness.ROOT}/proto", f"--python_out={folder}", *protos], check=True,
                   timeout=harness.TIMEOUT)
    sys.path.insert(0, str(folder))
    try:
        return [importlib.import_module(p.replace(".proto", "_pb2").replace("/", ".")) for p in protos]
    finally:
        sys.path.remove(str(folder))
