// SPDX-License-Identifier: Apache-2.0
import "./theme.css";
import "./page.css";
import { mountActions, pinned } from "./actions";
import { PageApp } from "./app";
import { mountCharts } from "./chart/charts";
import { drilled } from "./chart/groups";
import { mountFlame } from "./flame/panel";
import { fillHelp } from "./help";
import { mountHeaps } from "./heaps/panel";
import { Api, versionOf, type Site } from "./lib/api";
import { setVocabulary } from "./lib/names";
import { mountMemory } from "./memory/panel";
import { mountOverview } from "./overview/overview";
import { mountSearch } from "./search/search";
import { mountCallers } from "./sites/callers";
import { mountFilter } from "./sites/filter_bar";
import { mountSites } from "./sites/panel";
import { mountTabs } from "./tabs";
import { mountTime } from "./time/time";
import { mountValues } from "./values/panel";
import { mountVerdict } from "./verdict/panel";

// For scripts: the view, functions to change it, and the content of the panels.
declare global {
  interface Window { memprofd: object }
}

const RETRY_MS = 2000;

// Loads the vocabulary; retries until memprofd answers.
async function loadNames(notice: HTMLElement): Promise<void> {
  for (;;) {
    try {
      setVocabulary(await new Api().vocabulary());
      notice.hidden = true;
      return;
    } catch (error) {
      notice.textContent = `memprofd did not send its vocabulary: ${error instanceof Error ? error.message : error}`;
      notice.className = "error";
      notice.hidden = false;
      await new Promise((done) => window.setTimeout(done, RETRY_MS));
    }
  }
}

function begin(notice: HTMLElement): void {
  const app = new PageApp(notice);
  fillHelp(document.getElementById("help") as HTMLDialogElement);
  app.mount(mountTabs, "tabs");
  const verdict = app.mount(mountVerdict, "verdict");
  app.mount(mountOverview, "overview");
  app.mount(mountTime, "time");
  const charts = app.mount(mountCharts, "charts");
  const memory = app.mount((container, shared) => mountMemory(container, shared, charts), "memory");
  app.mount(mountHeaps, "heaps");
  app.mount(mountActions, "actions");
  app.mount(mountSearch, "search");
  app.mount(mountFilter, "filter");
  const sites = app.mount(mountSites, "sites");
  const flame = app.mount(mountFlame, "flame");
  app.mount(mountCallers, "callers");
  const values = app.mount(mountValues, "values");
  void app.start().then(() => {
    document.getElementById("foot")!.textContent =
      `memprofd ${versionOf(app.server)}. Bytes are estimates from samples; ± is one standard error.`;
  });
  window.memprofd = {
    view: () => app.store.get(),
    update: (change: Parameters<typeof app.store.update>[0]) => app.store.update(change, true),
    axis: () => app.axis(),
    recorded: () => app.recorded(),
    charts: () => charts.describe(),
    memory: () => memory.describe(),
    sites: () => sites.describe(),
    flame: (limit?: number) => flame.describe(limit),
    values: () => values.describe(),
    verdict: () => verdict.describe(),
    link: () => pinned(app),
    drilled: (site: Site, by: string) => drilled(app.store.get(), site, by) ?? null,
  };
}

const notice = document.getElementById("notice")!;
void loadNames(notice).then(() => begin(notice));
