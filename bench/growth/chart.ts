// A plot as an SVG: lines with the least and the greatest of their rounds, on two logarithmic axes.
import type { Line, Plot } from './plot.js';

const WIDTH = 720;
const HEIGHT = 400;
const LEFT = 76;
const RIGHT = 36;
const TOP = 46;
const BOTTOM = 60;
const LEGEND_LINE = 18;
/** Readable on white and on black. */
const INK = '#7d828a';
const COLOURS = ['#2f81f7', '#d9730d', '#2e9e5b'] as const;

/** The same plot gives the same text. */
export function chart({ lines, title, x, y }: Plot): string {
  const points = lines.flatMap((line) => line.points);
  const across = new Axis(
    points.map((point) => point.x),
    LEFT,
    WIDTH - RIGHT,
  );
  const bottom = HEIGHT - BOTTOM;
  const top = TOP + LEGEND_LINE * lines.length;
  const up = new Axis(
    points.flatMap(({ max, min }) => [roundedDown(min), roundedUp(max)]),
    bottom,
    top,
  );
  const height = HEIGHT;
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escaped(`${title}: ${y}, by ${x}`)}" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="13" fill="${INK}">`,
    `<text x="${LEFT}" y="24" font-size="16" font-weight="600">${escaped(title)}</text>`,
    ...lines.map((line, at) => legend(line, at)),
    ...up.ticks.map(({ at, label, isMajor }) => tickUp(at, label, isMajor)),
    ...[...new Set(points.map((point) => point.x))].map((value) => tickAcross(across.at(value), value, top, bottom)),
    `<path d="M${LEFT} ${top}V${bottom}H${WIDTH - RIGHT}" fill="none" stroke="${INK}"/>`,
    `<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${height - 14}" text-anchor="middle">${escaped(x)}</text>`,
    `<text transform="translate(18 ${(top + bottom) / 2}) rotate(-90)" text-anchor="middle">${escaped(y)}</text>`,
    ...lines.map((line, at) => drawnLine(line, colourOf(at), across, up)),
    '</svg>',
  ].join('\n')}\n`;
}

function colourOf(at: number): string {
  return COLOURS[at % COLOURS.length]!;
}

function legend({ name }: Line, index: number): string {
  const y = TOP + LEGEND_LINE * index - 4;
  const colour = colourOf(index);
  return `<path d="M${LEFT} ${y}h22" stroke="${colour}" stroke-width="2"/><circle cx="${LEFT + 11}" cy="${y}" r="3" fill="${colour}"/><text x="${LEFT + 30}" y="${y + 4}">${escaped(name)}</text>`;
}

function tickUp(at: number, label: string, isMajor: boolean): string {
  const line = `<path d="M${LEFT} ${at}H${WIDTH - RIGHT}" stroke="${INK}" stroke-opacity="${isMajor ? 0.35 : 0.13}"/>`;
  if (label === '') return line;
  return `${line}<text x="${LEFT - 8}" y="${at + 4}" text-anchor="end">${label}</text>`;
}

/** What was measured has a mark of its own: powers of ten or of two. */
function tickAcross(at: number, value: number, top: number, bottom: number): string {
  const line = `<path d="M${at} ${top}V${bottom}" stroke="${INK}" stroke-opacity="0.2"/>`;
  return `${line}<text x="${at}" y="${bottom + 18}" text-anchor="middle">${shownShort(value)}</text>`;
}

function drawnLine({ points }: Line, colour: string, across: Axis, up: Axis): string {
  const at = points.map((point) => `${across.at(point.x)} ${up.at(point.median)}`);
  const marks = points.map((point) => {
    const x = across.at(point.x);
    const whisker = `<path d="M${x} ${up.at(point.min)}V${up.at(point.max)}" stroke="${colour}" stroke-opacity="0.55"/>`;
    return `${whisker}<circle cx="${x}" cy="${up.at(point.median)}" r="3.5" fill="${colour}"/>`;
  });
  return `<path d="M${at.join('L')}" fill="none" stroke="${colour}" stroke-width="2"/>${marks.join('')}`;
}

interface Tick {
  readonly at: number;
  /** Empty where there is no room for it. */
  readonly label: string;
  readonly isMajor: boolean;
}

/** Logarithmic; 0, where it is measured, stands a little before the least. */
class Axis {
  readonly ticks: readonly Tick[];
  readonly #from: number;
  readonly #least: number;
  readonly #perStep: number;
  readonly #zeroSteps: number;

  constructor(values: readonly number[], from: number, to: number) {
    const above = values.filter((value) => value > 0);
    const [least, most] = [Math.min(...above), Math.max(...above)];
    this.#from = from;
    this.#least = least;
    this.#zeroSteps = values.includes(0) ? 0.7 : 0;
    this.#perStep = (to - from) / (Math.max(Math.log10(most / least), 0.3) + this.#zeroSteps);
    this.ticks = this.#ticksUpTo(most);
  }

  at(value: number): number {
    const steps = value <= 0 ? 0 : this.#zeroSteps + Math.log10(value / this.#least);
    return Math.round((this.#from + steps * this.#perStep) * 10) / 10;
  }

  #ticksUpTo(most: number): Tick[] {
    const ticks: Tick[] = [];
    const decades = Math.log10(most / this.#least);
    for (let power = 10 ** Math.floor(Math.log10(this.#least)); power <= most; power *= 10) {
      for (let times = 1; times < 10; times++) {
        const value = times * power;
        if (value < this.#least * 0.999 || value > most * 1.001) continue;
        const isMajor = times === 1;
        if (decades >= 3 && !isMajor) continue;
        const isLabelled = isMajor || times === 2 || times === 5;
        ticks.push({ at: this.at(value), label: isLabelled ? shownShort(value) : '', isMajor });
      }
    }
    return ticks;
  }
}

/** The greatest of 1, 2 and 5 times a power of ten that is not above. */
function roundedDown(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return (value >= 5 * power ? 5 : value >= 2 * power ? 2 : 1) * power;
}

function roundedUp(value: number): number {
  const below = roundedDown(value);
  if (below === value) return value;
  const power = 10 ** Math.floor(Math.log10(value));
  return (below === power ? 2 : below === 2 * power ? 5 : 10) * power;
}

function shownShort(value: number): string {
  return value === 0 ? '0' : value >= 1 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(1)));
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
