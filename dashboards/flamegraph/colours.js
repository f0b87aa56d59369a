// Colours of frames: by module, or by how long blocks live. They are pixels as a
// canvas has them: red in the lowest byte, then green, blue, and how opaque.
(function (memprof) {
  "use strict";

  const pixel = (r, g, b) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const fromHex = (hex) => pixel(...channels(hex));
  const css = (colour) => `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;

  // Hue in degrees, saturation and lightness in percent.
  function fromHsl(hue, saturation, lightness) {
    const l = lightness / 100;
    const reach = (saturation / 100) * Math.min(l, 1 - l);
    const channel = (n) => {
      const k = (n + hue / 30) % 12;
      return Math.round(255 * (l - reach * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
    };
    return pixel(channel(0), channel(8), channel(4));
  }

  // Hues that stay apart from the violet of search hits.
  const HUES = [208, 158, 36, 112, 342, 186, 14, 50, 228, 80, 316, 136];
  const SHADES = 4;
  const LIGHT = {
    frame: (hue, shade) => fromHsl(hue, 46, 82 - 3 * shade),
    plain: (shade) => fromHsl(215, 12, 88 - 2 * shade),
    match: fromHex("#7c4ddb"), rest: fromHex("#e6e9ee"),
    root: fromHex("#d9dee6"), unknown: fromHex("#dfe3e9"),
    text: "#1d2733", matchText: "#ffffff", outline: "#10151c",
    scale: ["#a9c7ea", "#bfe1da", "#f3e7b3", "#f5c08c", "#e98d77"],
  };
  const DARK = {
    frame: (hue, shade) => fromHsl(hue, 30, 37 - 3 * shade),
    plain: (shade) => fromHsl(215, 10, 31 - 2 * shade),
    match: fromHex("#9a6cf5"), rest: fromHex("#262c35"),
    root: fromHex("#333b47"), unknown: fromHex("#323943"),
    text: "#e9edf2", matchText: "#ffffff", outline: "#ffffff",
    scale: ["#305483", "#2f6a66", "#766a33", "#8c592b", "#a04438"],
  };

  // FNV-1a.
  function hash(text) {
    let h = 0x811c9dc5;
    for (let i = 0; i < text.length; ++i) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
    return (h ^ (h >>> 15)) >>> 0;
  }

  // The colour at part 0..1 of a scale of hexadecimal stops.
  function between(stops, part) {
    const at = Math.min(Math.max(part, 0), 1) * (stops.length - 1);
    const i = Math.min(Math.floor(at), stops.length - 2);
    const [from, to] = [channels(stops[i]), channels(stops[i + 1])];
    return pixel(...from.map((c, k) => Math.round(c + (to[k] - c) * (at - i))));
  }

  // The seconds between which nearly all lifetimes are, at least a factor of 100 apart.
  function lifetimeRange(lifetime) {
    const sorted = (lifetime ?? []).filter((seconds) => seconds > 0).sort();
    if (sorted.length === 0) return { low: 1e-3, high: 1e3 };
    const low = sorted[Math.floor(0.02 * (sorted.length - 1))];
    const high = sorted[Math.ceil(0.98 * (sorted.length - 1))];
    const short = Math.sqrt(Math.max(1, (100 * low) / high));
    return { low: low / short, high: high * short };
  }

  // Hue by module: by the hash of its name, so that it is the same in other
  // profiles, but no two of the modules with most samples have the same one.
  function huesOfModules(profile) {
    const weight = new Map();
    for (const { key } of profile.measures) {
      for (let i = 1; i < profile.size; ++i) {
        const module = profile.module(profile.fn[i]);
        weight.set(module, (weight.get(module) ?? 0) + profile.samples[key][i]);
      }
    }
    weight.delete("");
    const free = new Set(HUES.keys());
    const hues = new Map();
    for (const [module] of [...weight].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))) {
      let at = hash(module) % HUES.length;
      while (free.size > 0 && !free.has(at)) at = (at + 5) % HUES.length;
      free.delete(at);
      hues.set(module, HUES[at]);
    }
    return hues;
  }

  class Colours {
    constructor(profile, isDark, mode) {
      this.profile = profile;
      this.theme = isDark ? DARK : LIGHT;
      this.mode = mode;
      this.range = profile.lifetimeRange ??= lifetimeRange(profile.lifetime);
      this.hues = profile.hues ??= huesOfModules(profile);
      this.byFunction = new Map();
      this.steps = Array.from({ length: 64 }, (_, i) => between(this.theme.scale, i / 63));
    }

    ofModule(module, shade = 1) {
      return module === "" ? this.theme.plain(shade)
        : this.theme.frame(this.hues.get(module), shade);
    }
    ofLifetime(seconds) {
      if (!(seconds > 0)) return this.theme.unknown;
      const { low, high } = this.range;
      const part = Math.log(seconds / low) / Math.log(high / low);
      return this.steps[Math.min(63, Math.max(0, Math.round(part * 63)))];
    }
    of(tree, node) {
      const fn = tree.fn[node];
      if (this.mode === "lifetime") return this.ofLifetime(tree.lifetime(node));
      if (fn < 0) return this.theme.root;
      let colour = this.byFunction.get(fn);
      if (colour === undefined) {
        colour = this.ofModule(this.profile.module(fn), hash(this.profile.name(fn)) % SHADES);
        this.byFunction.set(fn, colour);
      }
      return colour;
    }
  }

  Colours.css = css;
  // The same colour, seen through.
  Colours.faded = (colour) => ((colour & 0xffffff) | (115 << 24)) >>> 0;
  memprof.Colours = Colours;
})((globalThis.memprof ??= {}));
