// SPDX-License-Identifier: Apache-2.0
// Columns of the table in each mode.
import type { Estimate, MeasureInfo } from "../lib/api";
import * as format from "../lib/format";
import { estimateOf, measures, unitOf } from "../lib/names";
import type { View } from "../lib/state";
import { medianOf, medianText } from "./lifetime";
import type { Mode, Row } from "./rows";

export interface Column {
  key: string;
  label: string;
  title: string;
  width: string;  // of a grid track
  value: (row: Row) => number;  // sort key and length of the bar
  error?: (row: Row) => number;  // one standard error of value
  text: (row: Row) => string;
  limits?: (row: Row) => string;  // the 95 % interval of value, in words
  bar?: "positive" | "signed";
  histogram?: boolean;  // of lifetimes
}

const bytesOf = (estimate: Estimate | undefined): number => estimate?.bytes ?? 0;
const errorOf = (estimate: Estimate | undefined): number => estimate?.bytes_stderr ?? 0;
const limitsOf = (estimate: Estimate | undefined): string =>
  estimate === undefined ? "" : format.interval(estimate.bytes_lower, estimate.bytes_upper);

function estimateColumn({ name, label }: MeasureInfo, title: string): Column {
  const of = ({ site }: Row) => estimateOf(site, name);
  return { key: name, label, title, width: "minmax(112px, 1fr)", bar: "positive",
    value: (row) => bytesOf(of(row)), error: (row) => errorOf(of(row)), limits: (row) => limitsOf(of(row)),
    text: (row) => format.estimate(bytesOf(of(row)), errorOf(of(row))) };
}

const samples: Column = { key: "samples", label: "Samples", title: "Samples of allocation", width: "76px",
  value: ({ site }) => Number(site.samples), text: ({ site }) => format.count(Number(site.samples)) };

const lifetime: Column = { key: "lifetime", label: "Lifetime", histogram: true, width: "minmax(160px, 0.9fr)",
  title: "Half of the memory lives at most this long, living memory included; > where more than half lives longer. " +
    "The bars are of what died, short lifetimes on the left",
  value: ({ site }) => medianOf(site.lifetime), text: ({ site }) => medianText(site.lifetime) };

const siteColumns = (): readonly Column[] =>
  [...measures().map((measure) => estimateColumn(measure, measure.meaning)), samples, lifetime];

function differenceColumns({ measure }: View): readonly Column[] {
  const unit = unitOf(measure);
  const side = (key: "base" | "other", label: string, title: string): Column => ({
    key, label, title, width: "minmax(130px, 1fr)", bar: "positive",
    value: ({ diff }) => bytesOf(estimateOf(diff?.[key], measure)),
    error: ({ diff }) => errorOf(estimateOf(diff?.[key], measure)),
    limits: ({ diff }) => limitsOf(estimateOf(diff?.[key], measure)) + unit,
    text: ({ diff }) => {
      const estimate = estimateOf(diff?.[key], measure);
      return format.estimate(bytesOf(estimate), errorOf(estimate)) + unit;
    },
  });
  return [side("base", "Before", "In the earlier range"), side("other", "After", "In the selected range"), {
    key: "change", label: "Change", title: "After minus before; ± is one standard error",
    width: "minmax(170px, 1.4fr)", bar: "signed",
    value: ({ diff }) => diff?.change ?? 0, error: ({ diff }) => diff?.change_stderr ?? 0,
    text: ({ diff }) => format.change(diff?.change ?? 0, diff?.change_stderr ?? 0) + unit,
    limits: ({ diff }) => format.interval(diff?.change_lower ?? 0, diff?.change_upper ?? 0) + unit +
      ((diff?.change_lower ?? 0) <= 0 && (diff?.change_upper ?? 0) >= 0 ? "; it may be zero" : ""),
  }];
}

const growthColumns = (): readonly Column[] => [
  { key: "growth", label: "Growth of live",
    title: "Over the range; ± is one standard error, including the program's own randomness",
    width: "minmax(150px, 1.2fr)", bar: "signed",
    value: ({ leak }) => leak?.growth_bytes ?? 0, error: ({ leak }) => leak?.growth_bytes_stderr ?? 0,
    text: ({ leak }) => format.change(leak?.growth_bytes ?? 0, leak?.growth_bytes_stderr ?? 0),
    limits: ({ leak }) => format.interval(leak?.growth_bytes_lower ?? 0, leak?.growth_bytes_upper ?? 0) },
  { key: "per_second", label: "Per hour", title: "The same growth by the hour", width: "minmax(116px, 0.7fr)",
    value: ({ leak }) => leak?.growth_bytes_per_second ?? 0,
    text: ({ leak }) => `${format.estimate((leak?.growth_bytes_per_second ?? 0) * 3600,
      (leak?.growth_bytes_per_second_stderr ?? 0) * 3600)}/h`,
    limits: ({ leak }) => `${format.interval((leak?.growth_bytes_per_second_lower ?? 0) * 3600,
      (leak?.growth_bytes_per_second_upper ?? 0) * 3600)}/h` },
  { key: "confidence", label: "Confidence", title: "Probability that it has grown at all", width: "88px",
    value: ({ leak }) => leak?.confidence ?? 0, text: ({ leak }) => format.share(leak?.confidence ?? 0, 1) },
  { key: "steadiness", label: "Steadiness", title: "Share of the steps of the range in which it grew", width: "88px",
    value: ({ leak }) => leak?.steadiness ?? 0, text: ({ leak }) => format.share(leak?.steadiness ?? 0, 1) },
  { key: "age", label: "Median age", title: "Half of live memory is older than this", width: "96px",
    value: ({ leak }) => leak?.median_age_seconds ?? 0,
    text: ({ leak }) => format.duration(leak?.median_age_seconds ?? 0),
    limits: ({ leak }) => format.interval(leak?.median_age_seconds_lower ?? 0, leak?.median_age_seconds_upper ?? 0,
      format.duration) },
  ...measures().filter(({ name }) => name === "live").map((live) => estimateColumn(live, "At the end of the range")),
  lifetime,
];

export function columnsOf(mode: Mode, view: View): readonly Column[] {
  if (mode === "difference") return differenceColumns(view);
  return mode === "growth" ? growthColumns() : siteColumns();
}

// Key of the column to sort by: the chosen one, or the mode's default.
export function sortColumn(columns: readonly Column[], chosen: string, mode: Mode, view: View): string {
  if (chosen === "name" || columns.some(({ key }) => key === chosen)) return chosen;
  return mode === "difference" ? "change" : mode === "growth" ? "growth" : view.measure;
}

// Largest first, names alphabetically, which is also the server's order.
export function sorted(rows: readonly Row[], columns: readonly Column[], key: string,
                       nameOf: (row: Row) => string): Row[] {
  if (key === "name") {
    const collator = new Intl.Collator("en", { numeric: true });
    return rows.map((row) => ({ row, name: nameOf(row) }))
      .sort((a, b) => collator.compare(a.name, b.name)).map(({ row }) => row);
  }
  const column = columns.find((one) => one.key === key);
  if (column === undefined) return [...rows];
  const weight = column.bar === "signed" && key === "change" ? (row: Row) => Math.abs(column.value(row))
    : column.value;
  return rows.map((row) => ({ row, value: weight(row) })).sort((a, b) => b.value - a.value).map(({ row }) => row);
}
