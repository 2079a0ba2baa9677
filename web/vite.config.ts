import { readdirSync } from "node:fs";
import { relative } from "node:path";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

const root = import.meta.dirname;
const components = readdirSync(`${root}/src`, { recursive: true })
  .map((name) => `src/${name}`)
  .filter((name) => name.endsWith(".svelte"))
  .sort();

// One script and one style sheet with fixed names: rebuilds are byte-identical, and a stand-alone page can inline both.
export default defineConfig({
  // Short names of style scopes and templates as trees make the script smaller.
  plugins: [
    svelte({
      compilerOptions: {
        cssHash: ({ filename }) => `s${components.indexOf(relative(root, filename)).toString(36)}`,
        fragments: "tree",
        discloseVersion: false,
      },
    }),
  ],
  base: "./",
  build: {
    outDir: "../src/clearhead/explorer/page",
    emptyOutDir: true,
    target: "es2022",
    // light-dark() stays as it is, so that the page can switch by `color-scheme`.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        format: "iife",
        entryFileNames: "assets/explorer.js",
        assetFileNames: "assets/explorer[extname]",
      },
    },
  },
});
