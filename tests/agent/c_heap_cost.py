#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what malloc and free cost a program whose C memory is followed (c_heap_cost.c)."""

import fake_runtime

PARTS = [f"c_heap/{name}.c" for name in ("c_heap", "c_blocks", "hooks", "sampled_blocks", "sampler", "slots", "elf_object")]

if __name__ == "__main__":
    print(fake_runtime.said_by("c_heap_cost.c", PARTS, "-O2", "-fPIC", "-ftls-model=initial-exec", "-mno-red-zone"), end="")
