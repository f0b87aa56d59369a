// Names of groups, and the way from a group to what it is made of.
import type { Site } from "../api";
import type { GroupBy, View } from "../state";

export const GROUP_LABELS: Record<GroupBy, string> = {
  module: "Module", function: "Function", file: "File", site: "Site", callstack: "Callstack",
  library: "Library", thread: "Thread", domain: "Domain",
};

const place = (site: Site) => (site.file === "" ? "" : `${site.file}:${site.line}`);

// One line; two groups may have the same.
export function groupName(site: Site, by: GroupBy): string {
  switch (by) {
    case "module": return site.module || "(no module)";
    case "function": return site.function;
    case "file": return site.file || "(no file)";
    case "site": return site.line === 0 ? site.function : `${site.function}:${site.line}`;
    case "callstack": return site.callstack.slice(0, 3).map((at) => at.function).join(" ← ") || site.function;
    case "library": return site.library || "(no library)";
    case "thread": return `thread ${site.thread}`;
    case "domain": return `domain ${site.domain}`;
  }
}

// The whole of what makes a group, in lines.
export function groupKey(site: Site, by: GroupBy): string {
  if (by === "site" || by === "function") return `${site.function}\n${by === "site" ? place(site) : site.file}`;
  if (by !== "callstack") return groupName(site, by);
  return site.callstack.map((at) => `${at.function}\n${at.file}:${at.line}`).join("\n");
}

const escaped = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

// RE2 for the sites of a group, found in the site's function, file or file:line.
// Undefined: there is none, as for callstacks.
export function patternOf(site: Site, by: GroupBy): string | undefined {
  switch (by) {
    case "module":
      // Modules of code that is not OCaml are ELF files; its functions have no dot.
      return /^[A-Z][\w']*$/.test(site.module) ? `^${escaped(site.module)}\\.` : "^[a-z_0-9]+$";
    case "function": return `^${escaped(site.function)}$`;
    case "file": return site.file === "" ? undefined : `^${escaped(site.file)}$`;
    case "site": return `^${escaped(place(site) || site.function)}$`;
    default: return undefined;
  }
}

const BELOW: Partial<Record<GroupBy, GroupBy>> = {
  module: "function", file: "function", library: "module", function: "site", site: "callstack",
  thread: "module", domain: "module",
};

// The view after a click on a group; undefined when there is nothing below.
export function drilled(view: View, site: Site, by: GroupBy): Partial<View> | undefined {
  const groupBy = BELOW[by];
  if (!groupBy) return undefined;
  const filter = { ...view.filter };
  const before = typeof filter["pattern"] === "string" ? filter["pattern"] : "";
  if (by === "thread") filter["threads"] = [String(site.thread)];
  else if (by === "domain") filter["domains"] = [String(site.domain)];
  const pattern = patternOf(site, by);
  if (pattern !== undefined) filter["pattern"] = pattern;
  return { groupBy, filter, drill: [...view.drill, { groupBy: by, pattern: before, label: groupName(site, by) }] };
}

// The view before the step of that index.
export function undrilled(view: View, index: number): Partial<View> {
  const step = view.drill[index];
  if (!step) return {};
  const filter = { ...view.filter };
  delete filter["pattern"];
  if (step.pattern !== "") filter["pattern"] = step.pattern;
  for (const { groupBy } of view.drill.slice(index)) {
    if (groupBy === "thread") delete filter["threads"];
    if (groupBy === "domain") delete filter["domains"];
  }
  return { groupBy: step.groupBy, filter, drill: view.drill.slice(0, index) };
}
