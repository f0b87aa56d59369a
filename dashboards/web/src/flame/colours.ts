// SPDX-License-Identifier: Apache-2.0
// Colours of frames: by module, by lifetime of blocks, or by change. Values are canvas pixels: red in the lowest
// byte, then green, blue and alpha.
import type { Tree } from "./call_tree";
import type { Profile } from "./profile";

export type ColourMode = "module" | "lifetime" | "change";

const pixel = (r: number, g: number, b: number) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
const channels = (hex: string): [number, number, number] =>
  [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as [number, number, number];
const fromHex = (hex: string) => pixel(...channels(hex));

export const css = (colour: number): string =>
  `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
// The same colour, translucent.
export const faded = (colour: number): number => ((colour & 0xffffff) | (FADED << 24)) >>> 0;
export const FADED = 115;  // of 255

// Hue in degrees, saturation and lightness in percent.
function fromHsl(hue: number, saturation: number, lightness: number): number {
  const l = lightness / 100;
  const reach = (saturation / 100) * Math.min(l, 1 - l);
  const channel = (n: number) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (l - reach * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return pixel(channel(0), channel(8), channel(4));
}

export interface Theme {
  frame: (hue: number, shade: number) => number;
  plain: (shade: number) => number;
  match: number;
  rest: number;
  root: number;
  unknown: number;
  text: string;
  matchText: string;
  outline: string;
  ground: string;  // background of exported pictures
  scale: string[];  // from short to long lifetimes
  change: string[];  // from gone to new
}

// Hues distinct from the violet of search hits.
const HUES = [208, 158, 36, 112, 342, 186, 14, 50, 228, 80, 316, 136];
const SHADES = 4;
const LIGHT: Theme = {
  frame: (hue, shade) => fromHsl(hue, 46, 82 - 3 * shade),
  plain: (shade) => fromHsl(215, 12, 88 - 2 * shade),
  match: fromHex("#7c4ddb"), rest: fromHex("#e6e9ee"),
  root: fromHex("#d9dee6"), unknown: fromHex("#dfe3e9"),
  text: "#1d2733", matchText: "#ffffff", outline: "#10151c", ground: "#ffffff",
  scale: ["#a9c7ea", "#bfe1da", "#f3e7b3", "#f5c08c", "#e98d77"],
  change: ["#6aa5e3", "#b9d5f0", "#e3e6ea", "#f4c3b4", "#e5836a"],
};
const DARK: Theme = {
  frame: (hue, shade) => fromHsl(hue, 30, 37 - 3 * shade),
  plain: (shade) => fromHsl(215, 10, 31 - 2 * shade),
  match: fromHex("#9a6cf5"), rest: fromHex("#262c35"),
  root: fromHex("#333b47"), unknown: fromHex("#323943"),
  text: "#e9edf2", matchText: "#ffffff", outline: "#ffffff", ground: "#1a1f27",
  scale: ["#305483", "#2f6a66", "#766a33", "#8c592b", "#a04438"],
  change: ["#2f6fb4", "#30506f", "#3a414b", "#6f423a", "#b04c36"],
};

// FNV-1a hash.
export function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; ++i) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return (h ^ (h >>> 15)) >>> 0;
}

// Interpolates hexadecimal stops at position 0 to 1.
function between(stops: string[], part: number): number {
  const at = Math.min(Math.max(part, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  const [from, to] = [channels(stops[i]), channels(stops[i + 1])];
  const mixed = from.map((c, k) => Math.round(c + (to[k] - c) * (at - i)));
  return pixel(mixed[0], mixed[1], mixed[2]);
}

const STEPS = 64;
const steps = (stops: string[]): number[] =>
  Array.from({ length: STEPS }, (_, i) => between(stops, i / (STEPS - 1)));
const step = (part: number) => Math.min(STEPS - 1, Math.max(0, Math.round(part * (STEPS - 1))));

// Range of seconds that holds nearly all lifetimes, at least a factor of 100 wide.
function lifetimeRange(lifetime: Float64Array | null): { low: number; high: number } {
  const sorted = (lifetime ?? new Float64Array()).filter((seconds) => seconds > 0).sort();
  if (sorted.length === 0) return { low: 1e-3, high: 1e3 };
  const low = sorted[Math.floor(0.02 * (sorted.length - 1))];
  const high = sorted[Math.ceil(0.98 * (sorted.length - 1))];
  const short = Math.sqrt(Math.max(1, (100 * low) / high));
  return { low: low / short, high: high * short };
}

// Hue by module: the hash of its name, so that it is the same in other profiles. The modules with most samples get
// distinct hues.
function huesOfModules(profile: Profile): Map<string, number> {
  const byFunction = new Float64Array(profile.modules.length);
  for (const { key } of profile.measures) {
    const samples = profile.samples[key];
    for (let i = 1; i < profile.size; ++i) byFunction[profile.fn[i]] += samples[i];
  }
  const weight = new Map<string, number>();
  byFunction.forEach((samples, fn) => {
    const module = profile.module(fn);
    weight.set(module, (weight.get(module) ?? 0) + samples);
  });
  weight.delete("");
  const free = new Set(HUES.keys());
  const hues = new Map<string, number>();
  for (const [module] of [...weight].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))) {
    let at = hash(module) % HUES.length;
    while (free.size > 0 && !free.has(at)) at = (at + 5) % HUES.length;
    free.delete(at);
    hues.set(module, HUES[at]);
  }
  return hues;
}

// Data that all views of one profile share.
interface Palette {
  range: { low: number; high: number };
  hues: Map<string, number>;
}
const palettes = new WeakMap<Profile, Palette>();
function paletteOf(profile: Profile): Palette {
  let palette = palettes.get(profile);
  if (palette === undefined) {
    palette = { range: lifetimeRange(profile.lifetime), hues: huesOfModules(profile) };
    palettes.set(profile, palette);
  }
  return palette;
}

export class Colours {
  readonly theme: Theme;
  readonly range: { low: number; high: number };  // of lifetimes, in seconds
  private readonly hues: Map<string, number>;
  private readonly byFunction = new Map<number, number>();
  private readonly lifetimes: number[];
  private readonly changes: number[];

  constructor(private readonly profile: Profile, isDark: boolean, readonly mode: ColourMode) {
    this.theme = isDark ? DARK : LIGHT;
    ({ range: this.range, hues: this.hues } = paletteOf(profile));
    this.lifetimes = steps(this.theme.scale);
    this.changes = steps(this.theme.change);
  }

  ofModule(module: string, shade = 1): number {
    return module === "" ? this.theme.plain(shade) : this.theme.frame(this.hues.get(module) ?? 0, shade);
  }
  ofLifetime(seconds: number): number {
    if (!(seconds > 0)) return this.theme.unknown;
    const { low, high } = this.range;
    return this.lifetimes[step(Math.log(seconds / low) / Math.log(high / low))];
  }
  // Colours the relative change from -1 (gone) to 1 (new), paler the closer it is to its error.
  private ofChange(tree: Tree, node: number): number {
    const { change, error, relative } = changeOf(tree, node);
    const sure = error > 0 ? Math.min(1, Math.max(0, (Math.abs(change) / error - 1) / 2)) : 1;
    return this.changes[step(0.5 + (relative * sure) / 2)];
  }
  of(tree: Tree, node: number): number {
    const fn = tree.fn[node];
    if (this.mode === "lifetime") return this.ofLifetime(tree.lifetime(node));
    if (this.mode === "change") return this.ofChange(tree, node);
    if (fn < 0) return this.theme.root;
    let colour = this.byFunction.get(fn);
    if (colour === undefined) {
      colour = this.ofModule(this.profile.module(fn), hash(this.profile.name(fn)) % SHADES);
      this.byFunction.set(fn, colour);
    }
    return colour;
  }
}

// The change of a node in a tree that shows a difference: after minus before, its standard error, and the change
// relative to the larger side.
export function changeOf(tree: Tree, node: number): { change: number; error: number; relative: number } {
  const { sides } = tree;
  if (sides === null) return { change: 0, error: 0, relative: 0 };
  const [before, after] = [sides.before[node], sides.after[node]];
  const change = after - before;
  const error = Math.sqrt(sides.beforeVariance[node] + sides.afterVariance[node]);
  return { change, error, relative: change === 0 ? 0 : change / Math.max(before, after) };
}
