// SPDX-License-Identifier: Apache-2.0
// Exports of the main chart.
import { fileName, type App, type Exporter } from "../app";
import { paletteOf } from "../lib/palette";
import { csvCell } from "../lib/text";
import type { Stack } from "./stack";
import { pngOf, svgOf } from "./svg";

function picture(stack: Stack, app: App): string {
  const view = app.store.get(), target = app.target();
  const filter = typeof view.filter["pattern"] === "string" ? `, sites that match ${view.filter["pattern"]}` : "";
  return svgOf({ stack, measure: view.measure, axis: app.axis(), palette: paletteOf(app.isDark()),
    title: `${target?.comm ?? "program"} (pid ${view.pid}): ${view.measure.replace("_", " ")} by ${view.groupBy}${filter}` });
}

// One line per moment and group: bytes or bytes per second, and the standard error.
function csv(stack: Stack): string {
  const lines = ["time,group,value,stderr,lower,upper"];
  stack.times.forEach((time, i) => {
    for (const area of stack.areas) {
      lines.push([new Date(time * 1000).toISOString(), csvCell(area.label), area.values[i], area.errors[i], area.lowers[i],
        area.uppers[i]].join(","));
    }
  });
  return `${lines.join("\n")}\n`;
}

export function chartFiles(stackOf: () => Stack | null, app: App): Exporter[] {
  const available = () => stackOf() !== null;
  const svg = () => picture(stackOf()!, app);
  return [
    { id: "chart-svg", label: "Chart as SVG", available,
      run: async () => ({ name: fileName(app, "memory", "svg"), blob: new Blob([svg()], { type: "image/svg+xml" }) }) },
    { id: "chart-png", label: "Chart as PNG", available,
      run: async () => ({ name: fileName(app, "memory", "png"), blob: await pngOf(svg()) }) },
    { id: "chart-csv", label: "Chart as CSV", available,
      run: async () => ({ name: fileName(app, "memory", "csv"), blob: new Blob([csv(stackOf()!)], { type: "text/csv" }) }) },
  ];
}
