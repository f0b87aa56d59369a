# SPDX-License-Identifier: Apache-2.0
"""JSON of memprofctl in the form in which tests compare it."""

import json
import re

ENUM_WORDS = {"state": "TARGET_STATE_", "level": "FINDING_LEVEL_", "cause": "END_CAUSE_"}


def answer(text):
    """Converts an answer: 64-bit numbers, which are strings in JSON, become numbers, states and
    levels become words, and nested fields get a flat name: allocated_bytes is allocated.bytes."""
    return json.loads(text, object_hook=_with_flat_names)


def _with_flat_names(found):
    flat = {key: _value(key, value) for key, value in found.items()}
    for key, value in found.items():
        if isinstance(value, dict) and "bytes_stderr" in value:
            flat.update({f"{key}_{part}": number for part, number in value.items() if part.startswith("bytes")})
    if "allocated" in found:
        flat.setdefault("samples", found["allocated"]["samples"])
    if isinstance(found.get("lifetime"), dict):
        flat["lifetime_seconds"] = _lifetime(found["lifetime"])
    return flat


def _value(key, value):
    if key in ENUM_WORDS and isinstance(value, str):
        return value.removeprefix(ENUM_WORDS[key]).lower()
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value) and key not in ("container", "comm"):
        return int(value)
    return value


def _lifetime(lifetime):
    flat = {"watched": lifetime["watched_seconds"], "samples": lifetime["samples"], "alive_ratio": lifetime["alive_ratio"]}
    for name in ("p50", "p90", "p99"):
        limits = lifetime.get(f"{name}_limits", {})
        flat |= {name: lifetime.get(f"{name}_seconds"), f"{name}_lower": limits.get("lower_seconds"),
                 f"{name}_upper": limits.get("upper_seconds")}
    return flat
