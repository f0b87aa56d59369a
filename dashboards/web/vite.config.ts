// SPDX-License-Identifier: Apache-2.0
// Runs in a build folder that holds node_modules and links to the sources (see web.mk), so that a build writes
// nothing beside the sources.
//
// `vite` serves the page during development; MEMPROFD_URL is the memprofd to ask.
import { defineConfig } from "vite";

declare const process: { env: Record<string, string | undefined> };
const memprofd = process.env["MEMPROFD_URL"] ?? "http://127.0.0.1:9871";

export default defineConfig({
  resolve: { preserveSymlinks: true },
  server: {
    host: "127.0.0.1",
    proxy: { "/api": memprofd, "/debug": memprofd, "/metrics": memprofd },
  },
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    modulePreload: false,
    // Names are fixed, because memprofd serves each file by a route of its own.
    rollupOptions: {
      output: { entryFileNames: "page.js", assetFileNames: "page[extname]", inlineDynamicImports: true },
    },
  },
});
