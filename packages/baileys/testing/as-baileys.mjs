// `node --import` it, and what a program imports as Baileys is the fake beside it.
import { register } from 'node:module';

const fake = new URL('./fake-baileys.mjs', import.meta.url).href;
const hook = `export const resolve = (name, context, next) =>
  name === '@whiskeysockets/baileys' ? { url: ${JSON.stringify(fake)}, shortCircuit: true } : next(name, context);`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
