// SPDX-License-Identifier: Apache-2.0
// Runs in a build folder that holds node_modules and links to the sources (see the
// Makefile), so that building writes nothing beside the sources.
//
// `vite` serves the page while developing; MEMPROFD_URL is the memprofd to ask.
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
    // Fixed names: memprofd serves each by a route of its own.
    rollupOptions: {
      output: { entryFileNames: "page.js", assetFileNames: "page[extname]", inlineDynamicImports: true },
    },
  },
});
