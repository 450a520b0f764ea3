// A client of `lastout host` in JavaScript: node examples/host.mjs [AGENT] [TEXT]
// Whatever happens to this process, no agent is left behind: the host ends when its stdin ends.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const [agent = "scripted", text = "hello"] = process.argv.slice(2);
const host = spawn("lastout", ["host"], { stdio: ["pipe", "pipe", "inherit"] });
const waiting = new Map();
let last = 0;

function ask(request) {
  const re = ++last;
  host.stdin.write(JSON.stringify({ ...request, re }) + "\n");
  return new Promise((resolve, reject) => waiting.set(re, { resolve, reject }));
}

createInterface({ input: host.stdout }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.re !== undefined) {
    const { resolve, reject } = waiting.get(message.re);
    waiting.delete(message.re);
    message.ok ? resolve(message) : reject(new Error(message.error));
  } else if (message.event === "text") {
    process.stdout.write(message.text);
  } else if (message.event === "command-started") {
    console.log(`\n$ ${message.command}`);
  } else if (message.event === "question") {
    ask({ do: "answer", key: message.key, question: message.id, choice: "deny" });
  }
});

await ask({ do: "open", key: "example", agent });
const { state, reason } = await ask({ do: "send", key: "example", text, wait: true });
console.log(`\n${state}${reason ? `: ${reason}` : ""}`);
console.log(await ask({ do: "quit" }));
