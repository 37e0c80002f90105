// A page of the console that is watched: what all parts of its campaign begin with.
import { readFileSync } from "node:fs";
import path from "node:path";

import { check, open } from "./people.mjs";

const [address, credentialsFile, count, folder, ...parts] = process.argv.slice(2);
export const url = address;
export const items = Number(count);
export const shots = folder;
export const wanted = parts;
export const { bearer } = JSON.parse(readFileSync(credentialsFile, "utf8"));
export const shot = (name) => path.join(shots, `${name}.png`);

// It may ask nobody but the service, and nothing in memory may do anything in it.
export function watch({ page, faults }) {
  page.on("request", (request) => {
    const known = [`${url}/`, "data:", "about:"];
    if (!known.some((start) => request.url().startsWith(start))) faults.push(`asked ${request.url()}`);
  });
  page.on("dialog", (dialog) => faults.push(`dialog ${dialog.message()}`));
  return page.addInitScript(() => {
    window.breaches = [];
    document.addEventListener("securitypolicyviolation", (event) =>
      window.breaches.push(`${event.violatedDirective} ${event.blockedURI}`),
    );
  });
}

export async function watched(browser, options) {
  const opened = await open(browser, { viewport: { width: 1280, height: 900 }, ...options });
  await watch(opened);
  return opened;
}

export const settled = (page) => page.waitForFunction(() => !document.querySelector(".waiting, [aria-busy]"));

// Anew, so that the view before it is surely gone.
export async function go(page, hash) {
  await page.goto("about:blank");
  await page.goto(`${url}/console${hash}`);
  await settled(page);
}

export async function unharmed(page, faults, what) {
  const state = await page.evaluate(() => ({
    harmed: window.harmed,
    breaches: window.breaches,
    made: document.querySelectorAll("main script, main img, main b, main i, main iframe").length,
    links: [...document.querySelectorAll("a")]
      .map((one) => one.getAttribute("href"))
      .filter((href) => !/^(https?:\/\/|#|\/)/.test(href)),
  }));
  check(state.harmed === undefined, `${what}: no text did anything`);
  check(state.breaches.length === 0, `${what}: ${state.breaches}`);
  check(state.made === 0, `${what}: no text became an element`);
  check(state.links.length === 0, `${what}: ${state.links}`);
  check(faults.length === 0, `${what}: ${faults.join("; ")}`);
}
