#!/usr/bin/env node
// Becomes the program of this platform's package, as far as Node can: its input, output, signals
// and exit code are the program's.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const platform = `@tallystick/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${platform}/bin/tally`);
} catch {
  console.error(`tally: there is no package ${platform}, or npm was told to leave optional ones out`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`tally: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
