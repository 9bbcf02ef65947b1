// Runs in a folder whose node_modules hold the (patched) package. Prints what turned red, as one line of JSON.
import {
  coordinatorConformance,
  inboxConformance,
  mailroomConformance,
  memoryStoreLab,
  memorySubject,
  storeConformance,
} from '@botmesh/core/testing';

const { promises, facts, seeds } = JSON.parse(process.argv[2]);
const red = [];
const note = (error) => String(error?.message ?? error).slice(0, 200);
process.on('unhandledRejection', () => {});
process.on('uncaughtException', (error) => {
  red.push({ promise: -1, title: 'an error that nobody caught', why: note(error) });
});

const store = { name: 'memory', open: memoryStoreLab, can: ['moveClock', 'restart', 'wipe', 'snapshot'] };
const tests = [
  ...coordinatorConformance(memorySubject()),
  ...inboxConformance(memorySubject()),
  ...[...mailroomConformance(memorySubject()), ...storeConformance(store)].map((test) => ({ ...test, promise: -2 })),
];
let green = 0;
for (const test of tests) {
  if (promises !== 'all' && !promises.includes(test.promise) && !facts.includes(test.title)) continue;
  // A broken rule may make a test wait in real time for ever.
  const limit = new Promise((_, reject) => setTimeout(() => reject(new Error('no end within 5 s')), 5_000).unref());
  try {
    await Promise.race([test.run(), limit]);
    green += 1;
  } catch (error) {
    red.push({ promise: test.promise, title: test.title, why: note(error) });
    // One for each promise is enough.
    const isRed = (promise) => red.some((each) => each.promise === promise);
    const isFound = (title) => red.some((each) => each.title === title);
    if (promises !== 'all' && promises.every(isRed) && facts.every(isFound)) break;
  }
}

let found;
if (seeds > 0) {
  const { simulate } = await import('./simulation/simulate.js');
  for (let seed = 1; seed <= seeds && found === undefined; seed += 1) {
    const { violations } = await simulate(seed);
    if (violations.length > 0) found = { seed, why: violations[0].slice(0, 200) };
  }
}
console.log(JSON.stringify({ red, green, found }));
process.exit(0);
