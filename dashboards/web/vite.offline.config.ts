// SPDX-License-Identifier: Apache-2.0
// The page of `memprofctl report -o html`: one script and one style sheet, which
// memprofd puts into offline.html.
import { defineConfig } from "vite";

export default defineConfig({
  resolve: { preserveSymlinks: true },
  build: {
    target: "es2022",
    outDir: "dist-offline",
    emptyOutDir: true,
    cssCodeSplit: false,
    lib: { entry: "src/flame/offline.ts", formats: ["iife"], name: "memprofFlame",
      fileName: () => "offline.js", cssFileName: "offline" },
  },
});
