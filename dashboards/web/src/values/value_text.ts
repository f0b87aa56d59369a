// SPDX-License-Identifier: Apache-2.0
// Formats a value in the way memprofctl prints it.
import type { Value } from "../lib/api";
import { bytes, count } from "../lib/format";

const least = (is: boolean): string => (is ? " or more" : "");
const fields = (value: Value, open: string, close: string): string =>
  open + [...value.fields.map(valueText), ...(value.is_cut ? [".."] : [])].join("; ") + close;
const counted = (value: Value, what: string): string => `${what} of ${count(Number(value.size))}${least(value.size_is_least)}`;

function stringText(value: Value): string {
  if (value.text === "" && Number(value.size) > 0) return `string of ${count(Number(value.size))} bytes`;
  return `"${value.text}"${value.is_cut ? `..${count(Number(value.size))} bytes` : ""}`;
}

function tableText(value: Value): string {
  const all = `Hashtbl of ${count(Number(value.size))} in ${count(Number(value.buckets))} buckets`;
  if (!value.chains_counted) return `${all}, chains not measured`;
  const chains = value.chains.slice(1).map((n, i) => `${i + 1}: ${count(Number(n))}`).join(", ");
  return `${all}, ${count(Number(value.empty_buckets))} empty, longest chain ${count(Number(value.longest_chain))}` +
    (chains === "" ? "" : `; chains of ${chains}`);
}

const SUFFIXES: Record<string, string> = { _i: "l", _j: "L", _n: "n" };

export function valueText(value: Value): string {
  switch (value.kind) {
    case "VALUE_KIND_INTEGER": return String(value.integer);
    case "VALUE_KIND_FLOAT": return String(value.number);
    case "VALUE_KIND_STRING": return stringText(value);
    case "VALUE_KIND_FLOAT_ARRAY": return counted(value, "float array");
    case "VALUE_KIND_FUNCTION": return `function ${value.text}`;
    case "VALUE_KIND_LAZY": return "lazy";
    case "VALUE_KIND_CUSTOM": return value.text in SUFFIXES ? `${value.integer}${SUFFIXES[value.text]}` : `custom block ${value.text}`;
    case "VALUE_KIND_ABSTRACT": return "abstract block";
    case "VALUE_KIND_OBJECT": return "object";
    case "VALUE_KIND_REFERENCE": return `ref ${fields(value, "", "")}`;
    case "VALUE_KIND_LIST": return `${counted(value, "list")} ${fields(value, "[", "]")}`;
    case "VALUE_KIND_TABLE": return tableText(value);
    case "VALUE_KIND_QUEUE": return `${counted(value, "queue")} ${fields(value, "[", "]")}`;
    case "VALUE_KIND_TREE": return counted(value, "Map or Set");
    case "VALUE_KIND_BLOCK": return `${value.tag === 0 ? "" : `tag ${value.tag} `}${fields(value, "{", "}")}`;
    case "VALUE_KIND_TAG": return `${count(Number(value.size))} marked${least(value.size_is_least)}, ${bytes(Number(value.bytes))}${least(value.bytes_is_least)}`;
    case "VALUE_KIND_UNREAD": return value.why_unread === "" ? ".." : `not read: ${value.why_unread}`;
    default: return "(unknown to this page)";
  }
}

// Text of a block in a graph, where its fields are drawn separately.
export function nodeText(value: Value): string {
  if (value.kind !== "VALUE_KIND_BLOCK" && value.kind !== "VALUE_KIND_REFERENCE") return valueText(value);
  return `${value.tag === 0 ? "" : `tag ${value.tag}, `}${count(Number(value.size))} field${Number(value.size) === 1 ? "" : "s"}`;
}
