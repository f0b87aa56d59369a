// SPDX-License-Identifier: Apache-2.0
// Rows of the table as CSV, with unrounded bytes and samples.
import { estimateOf, measures } from "../lib/names";
import { csvCell } from "../lib/text";
import { isKnown } from "./lifetime";
import type { Row } from "./rows";

export function toCsv(rows: readonly Row[], nameOf: (row: Row) => { name: string; where: string }): Blob {
  const head = ["name", "location", "samples", ...measures().flatMap(({ name: key }) =>
    ["", "_stderr", "_lower", "_upper"].map((part) => `${key}_bytes${part}`)),
    "lifetime_p50_seconds", "lifetime_p90_seconds", "lifetime_p99_seconds", "lifetime_watched_seconds", "alive_ratio",
    "change", "change_stderr", "change_lower", "change_upper", "growth_bytes", "growth_bytes_stderr",
    "growth_bytes_lower", "growth_bytes_upper"];
  const lines = rows.map((row) => {
    const { name, where } = nameOf(row);
    const { site, diff, leak } = row;
    const estimates = measures().map(({ name: key }) => estimateOf(site, key))
      .flatMap((estimate) => [estimate?.bytes ?? "", estimate?.bytes_stderr ?? "", estimate?.bytes_lower ?? "",
        estimate?.bytes_upper ?? ""]);
    const lifetime = isKnown(site.lifetime) ? site.lifetime : undefined;
    return [name, where, site.samples, ...estimates, lifetime?.p50_seconds ?? "", lifetime?.p90_seconds ?? "",
      lifetime?.p99_seconds ?? "", lifetime?.watched_seconds ?? "", lifetime?.alive_ratio ?? "",
      diff?.change ?? "", diff?.change_stderr ?? "", diff?.change_lower ?? "",
      diff?.change_upper ?? "", leak?.growth_bytes ?? "",
      leak?.growth_bytes_stderr ?? "", leak?.growth_bytes_lower ?? "", leak?.growth_bytes_upper ?? ""].map((cell) => csvCell(String(cell))).join(",");
  });
  return new Blob([[head.join(","), ...lines].join("\n"), "\n"], { type: "text/csv" });
}
