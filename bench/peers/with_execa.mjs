// execa as a wrapper: `with_execa.mjs PATH-OF-EXECA GRACE CMD...`
const [, , module, grace, command, ...rest] = process.argv;
const { execa } = await import(module);
const done = await execa(command, rest, {
  stdio: 'inherit', cleanup: true, forceKillAfterDelay: Number(grace) * 1000, reject: false,
});
process.exit(done.exitCode ?? 1);
