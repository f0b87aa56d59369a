// SPDX-License-Identifier: Apache-2.0
// Colours of areas, lines and marks, in light and dark mode.
const LIGHT = ["#6a3fc9", "#2b7fd4", "#12999b", "#4f9d45", "#b9931a", "#dd7430", "#cf4458", "#b0509c", "#5a6fb0", "#7a8a2e"];
const DARK = ["#a586f5", "#5aa5f0", "#3ec2c2", "#7cc670", "#dbb848", "#f09a5e", "#ee7385", "#d581c4", "#8e9fe0", "#abbb5c"];

export interface Palette {
  area(slot: number): string;
  other: string;
  heap: string;
  live: string;
  grid: string;
  text: string;
  ground: string;
  minor: string;
  major: string;
  compaction: string;
  anew: string; // restarts of sampling
  base: string; // the range to compare with
  chosen: string; // the counted range
}

export function paletteOf(dark: boolean): Palette {
  const colours = dark ? DARK : LIGHT;
  const other = dark ? "#5d6773" : "#a9b2bd";
  return {
    area: (slot) => (slot < 0 ? other : colours[slot % colours.length]!),
    other,
    heap: dark ? "#e4e9ef" : "#1d2733",
    live: dark ? "#e4e9ef" : "#1d2733",
    grid: dark ? "#262d37" : "#e9edf2",
    text: dark ? "#98a4b3" : "#5b6776",
    ground: dark ? "#1a1f27" : "#ffffff",
    minor: dark ? "#4b5664" : "#c3cad3",
    major: dark ? "#ffc47d" : "#b35c00",
    compaction: dark ? "#ee7385" : "#cf1f38",
    anew: dark ? "#e4e9ef" : "#1d2733",
    base: dark ? "#5aa5f0" : "#2b7fd4",
    chosen: dark ? "#b395ff" : "#6a3fc9",
  };
}
