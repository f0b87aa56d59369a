#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the cost of malloc and free in a program whose native heap is followed (native_heap_cost.c)."""

import fake_runtime

PARTS = [f"native_heap/{path.name}" for path in sorted((fake_runtime.AGENT / "native_heap").glob("*.c"))]



def measured(*options):
    return fake_runtime.said_by("native_heap_cost.c", PARTS, "-O2", "-fPIC", "-ftls-model=initial-exec", "-mno-red-zone", *options)


if __name__ == "__main__":
    print(measured(), end="")
