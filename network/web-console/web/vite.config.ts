import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const verifier = here("../../../clients/js/check_proof.mjs");

/** The verifier is written for node: here it is given the few things of node that it uses. */
const forBrowsers: Plugin = {
  name: "verifier-for-browsers",
  enforce: "pre",
  resolveId(id, importer) {
    if (importer !== verifier || !id.startsWith("node:")) return null;
    return here("src/verifier/node.ts");
  },
  transform(code, id) {
    if (id !== verifier) return null;
    const given = 'import { Buffer, process } from "node:browser";\n';
    return { code: given + code.replace(/^#!.*\n/, "\n"), map: null };
  },
};

export default defineConfig({
  plugins: [forBrowsers],
  resolve: { alias: { "#verifier": verifier } },
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    // The libraries' licences ask to be handed on with them.
    license: { fileName: "licenses.md" },
    modulePreload: { polyfill: false },
    // Names without hashes: the program has each file by its name.
    rolldownOptions: {
      output: {
        entryFileNames: "console.js",
        assetFileNames: "console[extname]",
        codeSplitting: false,
      },
    },
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    chunkSizeWarningLimit: 400,
  },
  server: { fs: { allow: ["../../.."] } },
});
