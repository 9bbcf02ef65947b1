// The style and the program of the report's page. It runs in a browser, from a file, with nothing besides.

export const PAGE_STYLE = `
body { font: 14px/1.45 system-ui, sans-serif; margin: 24px; color: #1c2330; background: #fff; }
h1 { font-size: 19px; padding-left: 10px; border-left: 6px solid #2e8b57; }
body.broken h1 { border-color: #c62828; }
h2 { font-size: 15px; margin-top: 22px; }
pre { background: #f5f7fa; padding: 10px 12px; white-space: pre-wrap; }
ol { max-height: 220px; overflow: auto; }
.hint { color: #667; font-size: 12px; }
#legend span { margin-right: 12px; white-space: nowrap; }
#legend i { display: inline-block; width: 10px; height: 10px; margin-right: 4px; }
#timeline { width: 100%; display: block; cursor: grab; }
#tip { position: fixed; display: none; background: #1c2330; color: #fff; padding: 4px 8px; font-size: 12px; pointer-events: none;
  max-width: 520px; border-radius: 3px; }
`;

export const PAGE_SCRIPT = `
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const canvas = document.getElementById('timeline');
const tip = document.getElementById('tip');
const pen = canvas.getContext('2d');
const LEFT = 86, TOP = 34, LANE = 12, GAP = 18;
const colour = (n) => 'hsl(' + ((200 + n * 47) % 360 > 330 ? 60 : (200 + n * 47) % 330) + ' 62% ' + (n % 2 ? 42 : 55) + '%)';

// A replica that was replaced has its line for its successor: as many lines as ever worked at once.
const spans = data.replicas.map((_, n) => {
  const own = data.bars.filter((bar) => bar[1] === n);
  return { n, from: Math.min(...own.map((bar) => bar[2])), to: Math.max(...own.map((bar) => bar[3])) };
}).sort((a, b) => a.from - b.from);
const free = [];
const lineOf = [];
for (const { n, from, to } of spans) {
  let line = free.findIndex((until) => until <= from);
  if (line < 0) line = free.push(0) - 1;
  free[line] = to;
  lineOf[n] = line;
}
const lines = Math.max(1, free.length);
const keyHeight = lines * LANE + GAP;
const height = TOP + data.keys.length * keyHeight + 26;
let from = 0, to = data.endMs;

const topOf = (key) => TOP + key * keyHeight + GAP / 2;
const yOf = (key, replica) => topOf(key) + lineOf[replica] * LANE;
const xOf = (ms) => LEFT + ((ms - from) / (to - from)) * (canvas.clientWidth - LEFT - 8);
const msAt = (x) => from + ((x - LEFT) / (canvas.clientWidth - LEFT - 8)) * (to - from);

function box(a, b, y, h, fill) {
  const x = Math.max(LEFT, xOf(a)), end = Math.min(canvas.clientWidth - 8, xOf(b));
  if (end < LEFT || x > canvas.clientWidth - 8) return;
  pen.fillStyle = fill;
  pen.fillRect(x, y, Math.max(1, end - x), h);
}

function upright(ms, y, h, stroke, dash) {
  const x = xOf(ms);
  if (x < LEFT || x > canvas.clientWidth - 8) return;
  pen.strokeStyle = stroke;
  pen.setLineDash(dash || []);
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x, y + h);
  pen.stroke();
  pen.setLineDash([]);
}

function draw() {
  const scale = window.devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * scale;
  canvas.height = height * scale;
  canvas.style.height = height + 'px';
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, canvas.clientWidth, height);
  pen.font = '11px system-ui, sans-serif';
  const all = data.keys.length * keyHeight;
  for (const [a, b] of data.gaps) box(a, b, TOP, all, 'rgba(60, 120, 220, .13)');
  for (const fault of data.faults) {
    if (fault.replica === undefined) box(fault.from, fault.to, TOP, all, 'rgba(90, 90, 100, .16)');
    else if (fault.replica >= 0) for (const key of data.keys.keys()) box(fault.from, fault.to, yOf(key, fault.replica), LANE, 'rgba(90, 90, 100, .38)');
  }
  for (const [key, name] of data.keys.entries()) {
    pen.fillStyle = '#1c2330';
    pen.fillText(name, 8, topOf(key) + 12);
    pen.fillStyle = '#dde2ea';
    pen.fillRect(LEFT, topOf(key) - GAP / 2, canvas.clientWidth - LEFT - 8, 1);
  }
  for (const bar of data.bars) {
    const y = yOf(bar[0], bar[1]);
    box(bar[2], bar[3], y + 1, LANE - 2, colour(bar[1]));
    if (bar[4] > 0 && xOf(bar[3]) >= LEFT) box(bar[3], bar[3], y, LANE, bar[4] === 1 ? '#c62828' : '#111');
  }
  for (const ms of data.losses) upright(ms, TOP, all, '#8a4b08', [5, 3]);
  upright(data.healedMs, TOP, all, '#2e8b57', [2, 2]);
  labels();
  for (const { key, at } of data.violations) {
    upright(at, topOf(key) - GAP / 2, keyHeight, '#e00000');
    pen.fillStyle = '#e00000';
    pen.font = 'bold 15px system-ui, sans-serif';
    if (xOf(at) >= LEFT) pen.fillText('✕', xOf(at) - 6, topOf(key) + 1);
  }
}

/** The scale below, and the names of the servers' faults above, where there is room. */
function labels() {
  let last = LEFT - 1;
  pen.fillStyle = '#444';
  for (const fault of data.faults.filter(({ replica }) => replica === undefined).sort((a, b) => a.from - b.from)) {
    const x = Math.max(LEFT, xOf(fault.from));
    if (x < last || xOf(fault.to) < LEFT || x > canvas.clientWidth - 60) continue;
    pen.fillText(fault.kind, x, TOP - 8);
    last = x + pen.measureText(fault.kind).width + 8;
  }
  const step = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000].find((ms) => (to - from) / ms < 14) || 120000;
  for (let ms = Math.ceil(from / step) * step; ms <= to; ms += step) {
    pen.fillText((ms / 1000).toFixed(step < 1000 ? 2 : 0) + ' s', xOf(ms) - 8, height - 8);
    upright(ms, height - 24, 4, '#888');
  }
}

function found(x, y) {
  const ms = msAt(x);
  const near = 3 * (to - from) / canvas.clientWidth;
  const violation = data.violations.find((v) => Math.abs(v.at - ms) < 2 * near && Math.abs(y - topOf(v.key) - keyHeight / 2) < keyHeight / 2);
  if (violation) return violation.rule + ': ' + violation.text;
  const bar = data.bars.find((b) => b[2] - near <= ms && ms <= b[3] + near && Math.abs(y - yOf(b[0], b[1]) - LANE / 2) <= LANE / 2);
  if (bar) {
    const [key, replica, a, b, end, fence, attempt] = bar;
    return data.keys[key] + ' by ' + data.replicas[replica] + ', ' + (a / 1000).toFixed(3) + ' to ' + (b / 1000).toFixed(3) + ' s, '
      + data.ends[end] + ', fence ' + fence + (attempt > 1 ? ', attempt ' + attempt : '');
  }
  const faults = data.faults.filter((f) => f.from - near <= ms && ms <= f.to + near && (f.replica === undefined
    || data.keys.some((_, key) => Math.abs(y - yOf(key, f.replica) - LANE / 2) <= LANE / 2)));
  return faults.map((f) => f.kind + (f.replica >= 0 ? ' ' + data.replicas[f.replica] : '') + ', '
    + (f.from / 1000).toFixed(2) + ' to ' + (f.to / 1000).toFixed(2) + ' s').join('; ');
}

function look(a, b) {
  const width = Math.min(Math.max(b - a, 20), data.endMs);
  from = Math.min(Math.max(a, 0), data.endMs - width);
  to = from + width;
  draw();
}

canvas.addEventListener('wheel', (event) => {
  event.preventDefault();
  const at = msAt(event.offsetX), by = event.deltaY > 0 ? 1.25 : 0.8;
  look(at - (at - from) * by, at + (to - at) * by);
}, { passive: false });
let dragged;
canvas.addEventListener('mousedown', (event) => { dragged = { x: event.offsetX, from, to }; });
window.addEventListener('mouseup', () => { dragged = undefined; });
canvas.addEventListener('dblclick', () => look(0, data.endMs));
canvas.addEventListener('mousemove', (event) => {
  if (dragged) {
    const ms = ((dragged.x - event.offsetX) / (canvas.clientWidth - LEFT - 8)) * (dragged.to - dragged.from);
    return look(dragged.from + ms, dragged.to + ms);
  }
  const text = found(event.offsetX, event.offsetY);
  tip.style.display = text ? 'block' : 'none';
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 12, window.innerWidth - 540) + 'px';
  tip.style.top = event.clientY + 14 + 'px';
});
canvas.addEventListener('mouseleave', () => { tip.style.display = 'none'; });
document.addEventListener('click', (event) => {
  const n = event.target.dataset && event.target.dataset.violation;
  if (n === undefined) return;
  event.preventDefault();
  const { at } = data.violations[n];
  look(at - 2000, at + 2000);
});
document.getElementById('legend').innerHTML = data.replicas
  .map((name, n) => '<span><i style="background:' + colour(n) + '"></i>' + name + '</span>').join('')
  + '<span><i style="background:#c62828"></i>turn lost</span><span><i style="background:#111"></i>end never told (killed)</span>'
  + '<span><i style="background:#8a4b08"></i>data lost</span><span><i style="background:#2e8b57"></i>harm over</span>';
window.addEventListener('resize', draw);
draw();
`;
