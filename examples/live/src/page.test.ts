import { existsSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Browser, chromium, type Locator, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { Program } from './testing/Program.js';

const CHROMIUM = [
  process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
].find((path) => existsSync(path));
/** Ignored by git; for a look. */
const SCREENSHOTS = fileURLToPath(new URL('../screenshots/', import.meta.url));
const SWITCHES = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

let browser: Browser;
let program: Program;
let page: Page;
let address = '';

beforeAll(async () => {
  if (CHROMIUM === undefined) throw new Error('no Chromium is found: install it, or set CHROMIUM_PATH');
  mkdirSync(SCREENSHOTS, { recursive: true });
  browser = await chromium.launch({ executablePath: CHROMIUM, args: SWITCHES });
}, 60_000);

afterAll(async () => {
  await browser?.close();
});

beforeEach(async () => {
  program = Program.piped('--page');
  [, address = ''] = await program.notices(/(http:\/\/127\.0\.0\.1:\d+)/);
  page = await browser.newPage({ viewport: { width: 1240, height: 1240 } });
  page.setDefaultTimeout(30_000);
  await page.goto(address);
}, 60_000);

afterEach(async () => {
  await page?.close();
  await program?.clear();
}, 60_000);

const chat = (name: string): Locator => page.locator(`[data-chat="${name}"]`);
const replica = (number: number): Locator => page.locator(`[data-replica="${number}"]`);
const count = (name: string): Locator => page.locator(`#proof [data-count="${name}"] b`);

async function say(name: string, text: string): Promise<void> {
  await chat(name).getByRole('textbox').fill(text);
  await chat(name).getByRole('textbox').press('Enter');
}

/** The replica that has the turn of a chat. */
async function holderOf(name: string): Promise<number> {
  return Number(await chat(name).locator('.top .chip').textContent());
}

async function shows(locator: Locator, text: string): Promise<void> {
  await locator.filter({ hasText: text }).first().waitFor();
}

test('a chat is answered, and its holder killed in mid-turn: another one takes over, and the counts are right', async () => {
  await say('ana', 'hi');
  await shows(chat('ana').locator('.answer'), 'Hello!');
  await say('ana', 'slow 3');
  await say('ana', 'after');
  await say('ben', 'slow 2');
  const killed = await holderOf('ana');
  const lastPid = /process (\d+)/.exec((await replica(killed).textContent()) ?? '')?.[1];
  await replica(killed).getByRole('button', { name: 'Kill' }).click();

  await shows(replica(killed).locator('.state'), 'dead');
  await chat('ana')
    .locator('.top .chip')
    .filter({ hasNotText: String(killed) })
    .waitFor();
  await page.screenshot({ path: `${SCREENSHOTS}taken-over.png` });
  await shows(chat('ana').locator('.answer'), 'You said: after');
  expect(await chat('ana').locator('.answer').allTextContents()).toEqual([
    expect.stringMatching(/^Hello!/),
    expect.stringMatching(/^That took 3 s\.replica \d, message 2, taken over$/),
    expect.stringMatching(/^You said: afterreplica \d, message 3$/),
  ]);
  await shows(chat('ben').locator('.answer'), 'That took 2 s.');
  await shows(replica(killed).locator('.state'), 'alive');
  expect(await replica(killed).textContent()).not.toContain(`process ${lastPid}`);
  await shows(page.locator('#verdict'), 'Everything that came in was handled.');
  expect(await count('received').textContent()).toBe('4');
  expect(await count('handled').textContent()).toBe('4');
  expect(await count('inOrder').textContent()).toBe('4');
  expect(Number(await count('takenOver').textContent())).toBeGreaterThanOrEqual(1);
  expect(await count('lost').textContent()).toBe('0');
  expect(await count('doubled').textContent()).toBe('0');
  expect(await page.locator('[data-lane="ana"] [data-end="killed"]').count()).toBe(1);
  expect(await page.locator('.leader:visible').count()).toBe(1);
  await page.screenshot({ path: `${SCREENSHOTS}counted.png`, fullPage: true });
}, 90_000);

test('a frozen holder is passed over, and thawed; a replica more is started; all that everyone writes is in order', async () => {
  await say('cleo', 'slow 1');
  const frozen = await holderOf('cleo');
  await replica(frozen).getByRole('button', { name: 'Freeze' }).click();
  await shows(replica(frozen).locator('.state'), 'frozen');
  await page.getByRole('button', { name: 'Start another' }).click();
  await page.getByRole('button', { name: 'Everyone writes 5' }).click();
  await shows(chat('cleo').locator('.answer'), 'taken over');
  await replica(frozen).getByRole('button', { name: 'Thaw' }).click();

  await shows(replica(frozen).locator('.state'), 'alive');
  await shows(replica(4).locator('.state'), 'alive');
  await shows(page.locator('#verdict'), 'Everything that came in was handled.');
  await shows(count('handled'), '16');
  expect(await count('inOrder').textContent()).toBe('16');
  expect(await count('lost').textContent()).toBe('0');
  expect(await count('doubled').textContent()).toBe('0');
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.screenshot({ path: `${SCREENSHOTS}dark.png`, fullPage: true });
  await page.setViewportSize({ width: 390, height: 844 });
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);
  await page.screenshot({ path: `${SCREENSHOTS}narrow.png`, fullPage: true });
}, 90_000);

test('another site’s page, or another name for this host, gets nothing and does nothing', async () => {
  const post = (headers: Record<string, string>) =>
    fetch(`${address}/kill`, { method: 'POST', headers, body: '{"replica":1}' });

  expect((await post({ origin: 'http://evil.example' })).status).toBe(403);
  expect((await post({ origin: address })).status).toBe(204);
  expect((await fetch(`${address}/secrets`)).status).toBe(404);
  expect((await fetch(`${address}/send`, { method: 'POST', body: '{"chat":1}' })).status).toBe(400);
}, 60_000);

test('a page that is open when the program ends says so', async () => {
  await program.clear();

  await shows(page.locator('#link'), 'the program has ended');
}, 60_000);
