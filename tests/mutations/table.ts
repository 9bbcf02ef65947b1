/** One rule switched off in the built code, and who must notice. */
export interface Mutation {
  /** What is switched off, in a few words. */
  readonly name: string;
  /** The rule, as the code's comments cite it; empty for what is no numbered rule. */
  readonly rule: string;
  readonly patches: readonly Patch[];
  /** The promises of which at least one test must turn red, each of them. 0: the suite's tests of odd input. */
  readonly promises: readonly number[];
  /** Titles of other tests that must turn red, each of them: of a Mailroom, or of a store step by step. */
  readonly facts?: readonly string[];
  /** Whether random schedules must find it as well. */
  readonly simulation?: true;
}

/** `find` stands exactly once in the file, under packages/core/dist. */
export interface Patch {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

const QUEUES = 'coordination/record/queues.js';
const OPERATIONS = 'coordination/record/operations.js';
const STEP = 'coordination/record/step.js';
const TRANSITIONS = 'coordination/transitions.js';
const SEAT = 'coordination/Seat.js';
const TICKETS = 'coordination/Tickets.js';
const LEASE = 'coordination/lease.js';
const BATCHES = 'coordination/batches.js';
const HELD = 'coordination/held.js';
const COORDINATOR = 'coordination/StoreCoordinator.js';

export const MUTATIONS: readonly Mutation[] = [
  {
    name: 'a key is granted although another replica holds it',
    rule: '',
    patches: [
      {
        file: OPERATIONS,
        find: 'queue.push(entry);\n    step.fresh',
        replace: 'queue.push(entry); hold(step, entry);\n    step.fresh',
      },
    ],
    promises: [1, 17],
    simulation: true,
  },
  {
    name: 'a reservation goes before those that wait',
    rule: '',
    patches: [
      {
        file: OPERATIONS,
        find: 'queue.push(entry);\n    step.fresh',
        replace: 'queue.splice(1, 0, entry);\n    step.fresh',
      },
    ],
    promises: [2],
    simulation: true,
  },
  {
    name: 'calls are sent in another order than they were made',
    rule: '',
    patches: [{ file: BATCHES, find: 'this.#queue.push(pending);', replace: 'this.#queue.unshift(pending);' }],
    promises: [3],
    simulation: true,
  },
  {
    name: 'fences are a plain counter',
    rule: 'R8',
    patches: [
      { file: STEP, find: 'Math.max(record.last + 1, Math.floor(step.wallMs * 1000))', replace: 'record.last + 1' },
    ],
    promises: [4],
  },
  {
    name: 'what replicas have seen does not raise the stamps',
    rule: 'R8',
    patches: [{ file: STEP, find: 'if (seen > record.last)', replace: 'if (false)' }],
    promises: [4],
  },
  {
    name: 'all chats share one queue',
    rule: '',
    patches: [
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code
      { file: COORDINATOR, find: "return `c:${text('key', key)}`;", replace: "text('key', key); return 'c:';" },
    ],
    promises: [5],
  },
  {
    name: 'a second release frees whoever holds the key by then',
    rule: '',
    patches: [
      {
        file: OPERATIONS,
        find: 'const entry = me.tickets.get(op.seq);',
        replace: 'const entry = step.record.queues.get(op.key)?.at(0);',
      },
      { file: HELD, find: 'if (this.#released !== undefined)\n            return this.#released;', replace: '' },
      {
        file: TICKETS,
        find: 'if (place?.hold !== hold)\n            return Promise.resolve();',
        replace:
          // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code
          "if (place === undefined) return new Promise((resolve) => this.#give({ key: `c:${hold.name}`, seq: hold.seq }, 'done', resolve));",
      },
    ],
    promises: [6],
  },
  {
    name: 'a grant is handed out however little trust is left',
    rule: '',
    patches: [
      { file: TICKETS, find: 'lease.checkedMs() >= settings.timing.trustMs / 4', replace: 'true' },
      { file: SEAT, find: 'return era === this.#era && this.#lease.check();', replace: 'return true;' },
    ],
    promises: [7],
  },
  {
    name: 'the tickets of the dead are not skipped',
    rule: 'R1',
    patches: [{ file: TRANSITIONS, find: 'if (row !== me && isOver(step, row))', replace: 'if (false)' }],
    promises: [8, 19, 20],
    simulation: true,
  },
  {
    name: 'the dead are skipped only where somebody reserves anew',
    rule: 'R1',
    patches: [
      {
        file: QUEUES,
        find: 'if (headOf(step, entry.key) === entry)\n            settle(step, entry.key);\n    }\n}\n/** The tickets of a row',
        replace: '}\n}\n/** The tickets of a row',
      },
    ],
    promises: [8],
    simulation: true,
  },
  {
    name: 'local trust is as long as the lease',
    rule: 'R5',
    patches: [{ file: 'coordination/timing.js', find: '(2 * leaseMs) / 3', replace: 'leaseMs * 1.2' }],
    promises: [9],
    simulation: true,
  },
  {
    name: 'trust is counted from the answer, not from the sending',
    rule: 'R5',
    patches: [
      {
        file: LEASE,
        find: 'this.#trustedFrom = sentAt;',
        replace: 'this.#trustedFrom = { monotonicMs: this.#clock.monotonicMs(), wallMs: this.#clock.wallMs() };',
      },
    ],
    promises: [9],
  },
  {
    name: 'a suspended host is not noticed: the wall clock is not read',
    rule: 'R5',
    patches: [
      {
        file: 'time/clock.js',
        find: 'Math.max(clock.monotonicMs() - since.monotonicMs, clock.wallMs() - since.wallMs)',
        replace: 'clock.monotonicMs() - since.monotonicMs',
      },
    ],
    promises: [10],
    simulation: true,
  },
  {
    name: 'a wall clock that was set back is believed: the monotonic clock is not read',
    rule: 'R5',
    patches: [
      {
        file: 'time/clock.js',
        find: 'Math.max(clock.monotonicMs() - since.monotonicMs, clock.wallMs() - since.wallMs)',
        replace: 'clock.wallMs() - since.wallMs',
      },
    ],
    promises: [10],
    simulation: true,
  },
  {
    name: 'assertHeld does not read the clocks',
    rule: 'R5',
    patches: [{ file: HELD, find: 'this.#keeper.isTrusted();', replace: '' }],
    promises: [10],
  },
  {
    name: 'an answer that comes after trust ran out makes held again what was lost',
    rule: 'R6',
    patches: [
      {
        file: LEASE,
        find: '        this.check();\n        this.#trustedFrom = sentAt;',
        replace: '        this.#trustedFrom = sentAt;',
      },
      {
        file: SEAT,
        find: 'this.#lease.check();\n        // In a new era',
        replace: '// In a new era',
      },
    ],
    promises: [10],
  },
  {
    name: 'a replica that is told it is dead goes on',
    rule: 'R3',
    patches: [
      {
        file: SEAT,
        find: "if (answer.kind === 'dead')\n            this.#superseded();",
        replace: "if (answer.kind === 'dead')\n            return 1000;",
      },
      {
        file: SEAT,
        find: 'this.#batches.putBack(pending);',
        replace:
          "if (answer.kind === 'dead') { for (const each of pending) each.reject(new Error('gone')); return; } this.#batches.putBack(pending);",
      },
    ],
    promises: [10],
    simulation: true,
  },
  {
    name: 'a state write is not held against its fence',
    rule: '',
    patches: [{ file: 'state/MemoryStateStore.js', find: 'if (fence < newestFence)', replace: 'if (false)' }],
    promises: [11],
  },
  {
    name: 'a holder that lost its turn may go on',
    rule: 'R5',
    patches: [{ file: HELD, find: 'throw this.#ended;', replace: ';' }],
    promises: [11],
  },
  {
    name: 'heartbeats do not tell of grants whose push was lost',
    rule: 'R11',
    patches: [{ file: TRANSITIONS, find: 'else if (entry.fence <= step.stampBefore)', replace: 'else if (false)' }],
    promises: [12],
    simulation: true,
  },
  {
    name: 'a batch that comes again is done again',
    rule: 'R7',
    patches: [
      { file: TRANSITIONS, find: 'if (request.batch === me.batch && me.reply !== null)', replace: 'if (false)' },
      { file: TRANSITIONS, find: 'if (request.batch <= me.batch)', replace: 'if (false)' },
    ],
    promises: [13],
  },
  {
    name: 'a heartbeat that comes late is taken for new',
    rule: 'R7',
    patches: [{ file: TRANSITIONS, find: 'if (request.beat <= me.beatNumber)', replace: 'if (false)' }],
    promises: [13],
  },
  {
    name: 'a replica that stops says nothing to the store',
    rule: '',
    patches: [
      {
        file: SEAT,
        find: 'const answer = await answerWithin(clock, timing.beatMs, () => this.#store.leave(request));',
        replace: 'const answer = undefined;',
      },
    ],
    promises: [14, 19],
    simulation: true,
  },
  {
    name: 'an outage is never called one',
    rule: '',
    patches: [
      { file: 'coordination/Reachability.js', find: 'this.#isDown = true;\n            this.#onDown();', replace: '' },
    ],
    promises: [15],
  },
  {
    name: 'a ticket whose acquire was given up stays in its queue',
    rule: '',
    patches: [
      {
        file: TICKETS,
        find: "if (place.stage === 'open' || place.stage === 'waiting')\n            this.#give(place, { how: 'withdraw' });",
        replace: '',
      },
    ],
    promises: [15],
    simulation: true,
  },
  {
    name: 'a newer start does not replace the older',
    rule: 'R4',
    patches: [{ file: TRANSITIONS, find: 'replace(step, row);', replace: ';' }],
    promises: [16],
  },
  {
    name: 'what a replaced replica holds is granted at once',
    rule: 'R4',
    patches: [{ file: TRANSITIONS, find: 'replace(step, row);', replace: '{ replace(step, row); bury(step, row); }' }],
    promises: [16],
    simulation: true,
  },
  {
    name: 'a join alone takes the name',
    rule: 'R4',
    patches: [
      {
        file: TRANSITIONS,
        find: 'step.record.live.set(epoch, row);',
        replace: 'step.record.live.set(epoch, row); prove(step, row);',
      },
    ],
    promises: [16],
  },
  {
    name: 'an older start that joins again takes the name back',
    rule: 'R4',
    patches: [{ file: TRANSITIONS, find: 'if (isOutdated(record, request))', replace: 'if (false)' }],
    promises: [16],
  },
  {
    name: 'eras are stamps, which may come again',
    rule: 'R9',
    patches: [
      { file: STEP, find: "record.era = eraOf(record.run ?? '', stamp(step));", replace: 'record.era = stamp(step);' },
    ],
    promises: [27],
  },
  {
    name: 'tryLead waits in the queue',
    rule: '',
    patches: [{ file: OPERATIONS, find: 'if (record.queues.has(key))\n        return null;', replace: '' }],
    promises: [18],
  },
  {
    name: 'a leader that resigns tells nobody',
    rule: '',
    patches: [{ file: HELD, find: 'return this.giveBack(PLAIN.done);', replace: 'return Promise.resolve();' }],
    promises: [19],
  },
  {
    name: 'messages of the dead are skipped like tickets',
    rule: '',
    patches: [
      {
        file: QUEUES,
        find: 'if (head.message !== null && !passOn(step, head, head.message)) {',
        replace: 'if (false) {',
      },
      { file: QUEUES, find: 'if (head.message !== null)\n            continue;', replace: '' },
    ],
    promises: [20],
    simulation: true,
  },
  {
    name: 'an adopted message goes to the end of its queue',
    rule: '',
    patches: [
      {
        file: QUEUES,
        find: 'adopter.tickets.set(entry.seq, entry);',
        replace:
          'adopter.tickets.set(entry.seq, entry); { const q = record.queues.get(entry.key); q.shift(); q.push(entry); if (q.at(0) !== entry) { entry.offered = false; return true; } }',
      },
    ],
    promises: [21],
    simulation: true,
  },
  {
    name: 'ids of messages are not checked',
    rule: '',
    patches: [
      {
        file: OPERATIONS,
        find: 'if (record.taken.has(name) || (record.done.get(name) ?? 0) > step.wallMs)',
        replace: 'if (false)',
      },
    ],
    promises: [22],
    simulation: true,
  },
  {
    name: 'the id of a message that was given up stays taken',
    rule: '',
    patches: [
      {
        file: OPERATIONS,
        find: 'step.record.taken.delete(name);',
        replace: 'if (isDone) step.record.taken.delete(name);',
      },
    ],
    promises: [22],
  },
  {
    name: 'a message that fails is tried for ever',
    rule: '',
    patches: [{ file: QUEUES, find: 'if (message.attempt > message.maxAttempts) {', replace: 'if (false) {' }],
    promises: [23],
  },
  {
    name: 'messages that replicas died with are all tried together',
    rule: '',
    patches: [
      {
        file: QUEUES,
        find: 'const head = row.trial === null ? undefined : headOf(step, row.trial);',
        replace: 'const head = undefined;',
      },
    ],
    promises: [23],
    facts: [
      'a replica has one suspect message at a time, and gets the next with the end of that',
      'suspect messages go to replicas that have none, and to no other',
      'messages that two replicas died with are suspect',
    ],
  },
  {
    name: 'a replica that was blocked does not say so',
    rule: '',
    patches: [{ file: TICKETS, find: "isBlocked ? 'lost' : 'return'", replace: "'return'" }],
    promises: [23],
  },
  {
    name: 'the end of a suspect message hands out no other',
    rule: '',
    patches: [{ file: OPERATIONS, find: 'if (message.suspect)', replace: 'if (false)' }],
    promises: [],
    facts: ['a replica has one suspect message at a time, and gets the next with the end of that'],
  },
  {
    name: 'a suspect message that runs for long holds up all others',
    rule: '',
    patches: [{ file: QUEUES, find: '< TRIAL_LEASES * configOf(step).leaseMs', replace: '< Infinity' }],
    promises: [],
    facts: ['a suspect message that has run for five leases holds up no other'],
  },
  {
    name: 'what does not get through is sent for ever',
    rule: '',
    patches: [{ file: BATCHES, find: 'const sinceMs = clock.monotonicMs() - patienceMs;', replace: 'return [];' }],
    promises: [15],
  },
  {
    name: 'messages of any length are taken in',
    rule: '',
    patches: [{ file: SEAT, find: 'return bytes === undefined ? undefined :', replace: 'return true ? undefined :' }],
    promises: [0],
  },
  {
    name: 'a parked message is dropped',
    rule: '',
    patches: [
      {
        file: QUEUES,
        find: 'step.record.parked.set(seq, { key, seq, id, body, attempts, error });',
        replace: '',
      },
    ],
    promises: [23],
  },
  {
    name: 'heartbeats come twice as often',
    rule: '',
    patches: [
      {
        file: SEAT,
        find: 'this.#tickets.hasWaiting() ? beatMs / 8 : beatMs;',
        replace: 'this.#tickets.hasWaiting() ? beatMs / 8 : beatMs / 2;',
      },
    ],
    promises: [24],
  },
  {
    name: 'idle keys keep an empty queue',
    rule: '',
    patches: [{ file: QUEUES, find: 'record.queues.delete(key);', replace: '' }],
    promises: [25],
  },
  {
    name: 'ids of finished messages are kept for ever',
    rule: '',
    patches: [{ file: TRANSITIONS, find: 'step.record.done.delete(name);', replace: 'return;' }],
    promises: [25],
  },
  {
    name: 'each call travels alone',
    rule: '',
    patches: [{ file: BATCHES, find: 'const MAX_OPS = 256;', replace: 'const MAX_OPS = 1;' }],
    promises: [26],
  },
  {
    name: 'grants are not pushed',
    rule: 'R13',
    patches: [
      {
        file: QUEUES,
        find: "push(step, owner, { kind: 'grant', epoch: owner.epoch, era: entry.era, key, seq, fence });",
        replace: ';',
      },
    ],
    promises: [17, 26],
  },
  {
    name: 'a grant is pushed to everybody',
    rule: 'R13',
    patches: [
      {
        file: QUEUES,
        find: 'step.pushes.push({ instance: to.instance, push: what });',
        replace:
          'for (const row of step.record.live.values()) step.pushes.push({ instance: row.instance, push: what });',
      },
    ],
    promises: [17, 26],
  },
  {
    name: 'a release does not grant the next',
    rule: '',
    patches: [
      {
        file: QUEUES,
        find: 'takeOut(step, entry);\n    if (wasHead)',
        replace: 'takeOut(step, entry);\n    if (false)',
      },
    ],
    promises: [26],
  },
  {
    name: 'no quarantine after a change of the server',
    rule: 'R9',
    patches: [
      { file: STEP, find: 'leaseMs === 0 ? Number.POSITIVE_INFINITY : timing(leaseMs).quarantineMs;', replace: '0;' },
    ],
    promises: [27],
    simulation: true,
  },
  {
    name: 'a quarantine ends with the first heartbeat',
    rule: 'R9',
    patches: [{ file: TRANSITIONS, find: 'request.watchedMs >= record.quarantineMs', replace: 'true' }],
    promises: [27],
  },
  {
    name: 'a store that was set back confirms whatever its replicas say they hold',
    rule: 'R10',
    patches: [
      {
        file: TRANSITIONS,
        find: 'if (entry.fence !== ticket.fence || headOf(step, entry.key) !== entry)',
        replace: 'if (false)',
      },
    ],
    promises: [27],
  },
  {
    name: 'tickets that the store does not know are waited for all the same',
    rule: 'R11',
    patches: [{ file: SEAT, find: 'this.#tickets.onLost(ticket);', replace: ';' }],
    promises: [27],
    simulation: true,
  },
  {
    name: 'tickets that their owner does not know stay',
    rule: 'R12',
    patches: [
      {
        file: TRANSITIONS,
        find: 'disown(step, me, entry);\n    }\n    return lost;',
        replace: ';\n    }\n    return lost;',
      },
    ],
    promises: [27],
    simulation: true,
  },
  {
    name: 'anybody may declare a death',
    rule: 'R2',
    patches: [{ file: STEP, find: ' && isWitness(step, step.me)', replace: '' }],
    promises: [28],
    simulation: true,
  },
  {
    name: 'a gap in its own heartbeats does not disqualify a witness',
    rule: 'R2',
    patches: [
      { file: TRANSITIONS, find: 'if (gap < 0 || gap > timing(configOf(step).leaseMs).gapMs)', replace: 'if (false)' },
    ],
    promises: [28],
  },
  {
    name: 'a stamp in the future keeps the dead alive',
    rule: 'R2',
    patches: [{ file: TRANSITIONS, find: 'if (row.beat > step.nowMs)', replace: 'if (false)' }],
    promises: [28],
  },
  {
    name: 'replicas that are set up differently may join',
    rule: 'R14',
    patches: [
      {
        file: TRANSITIONS,
        find: 'if (isPinned(step, found))\n            return found;',
        replace: 'if (isPinned(step, found))\n            return null;',
      },
    ],
    promises: [29],
  },
  {
    name: 'a message passed on counts as tried',
    rule: '',
    patches: [
      { file: OPERATIONS, find: 'entry.fence = 0;\n    step.passing = entry;', replace: 'step.passing = entry;' },
    ],
    promises: [],
    facts: ['a message passed on is not counted as tried'],
  },
  {
    name: 'a message passed on comes back to the replica that cannot handle it',
    rule: '',
    patches: [{ file: QUEUES, find: ' && step.passing !== entry', replace: '' }],
    promises: [],
    facts: ['a message passed on is not counted as tried'],
  },
  {
    name: 'whoever has a ticket may finish what waits in its key',
    rule: '',
    patches: [
      {
        file: OPERATIONS,
        find: 'if (isHeld && also.length > 0)',
        replace: 'if (also.length > 0)',
      },
    ],
    promises: [],
    facts: ['only the holder can finish messages that wait behind it'],
  },
  {
    name: 'plain tickets behind a turn may be finished with it',
    rule: '',
    patches: [
      { file: OPERATIONS, find: ' && entry !== head && entry.message !== null', replace: ' && entry !== head' },
    ],
    promises: [],
    facts: ['plain tickets, unknown ones and the holder’s own do not end as messages behind a turn'],
  },
  {
    name: 'messages finished with a turn are forgotten as if they were given up',
    rule: '',
    patches: [
      {
        file: OPERATIONS,
        find: 'forget(step, key, entry.message, true)',
        replace: 'forget(step, key, entry.message, false)',
      },
    ],
    promises: [],
    facts: ['messages finished together with a turn are done in the same step, whoever took them in'],
  },
  {
    name: 'the former owner of a finished message is told by its next heartbeat only',
    rule: '',
    patches: [{ file: OPERATIONS, find: 'if (owner !== undefined && owner !== me)', replace: 'if (false)' }],
    promises: [],
    facts: ['messages finished together with a turn are done in the same step, whoever took them in'],
  },
  {
    name: 'who finished a message of its own learns it by its next heartbeat only',
    rule: '',
    patches: [{ file: TICKETS, find: 'if (place?.isMessage && place.key === key)', replace: 'if (false)' }],
    promises: [],
    facts: ['messages finished together with a turn are done in the same step, whoever took them in'],
  },
  {
    name: 'a reason for returning a message is not kept',
    rule: '',
    patches: [{ file: OPERATIONS, find: 'message.error = error ?? message.error;', replace: ';' }],
    promises: [],
    facts: ['a parked message shows the last reason that was given for returning it'],
  },
  {
    name: 'a look shows what waits also behind a ticket that is not the head',
    rule: '',
    patches: [{ file: TRANSITIONS, find: 'if (queue?.at(0)?.seq !== seq)', replace: 'if (queue === undefined)' }],
    promises: [],
    facts: ['nothing waits behind a ticket that is not the head, nor for nothing'],
  },
  {
    name: 'a note is forgotten when it was sent, heard of or not',
    rule: '',
    patches: [
      {
        file: TRANSITIONS,
        find: 'const notes = me.notes.slice(0, NOTES_SHARE);',
        replace: 'const notes = me.notes.slice(0, NOTES_SHARE); me.notes = me.notes.slice(NOTES_SHARE);',
      },
    ],
    promises: [],
    facts: ['a note reaches the holder once, also when the push is lost'],
  },
  {
    name: 'a note waits for the next heartbeat of its holder',
    rule: '',
    patches: [
      {
        file: OPERATIONS,
        find: "push(step, owner, { kind: 'look', epoch: owner.epoch });\n    return { seq, fence };",
        replace: 'return { seq, fence };',
      },
    ],
    promises: [],
    facts: ['a note reaches the holder at once, and a later turn never'],
  },
  {
    name: 'a note for one turn is told to a later one of the same ticket',
    rule: '',
    patches: [{ file: TRANSITIONS, find: ' && entry.fence < at', replace: '' }],
    promises: [],
    facts: ['a note is for the turn that it was left for, not for a later one of the same ticket'],
  },
  {
    name: 'a note that overtakes the answer which names its ticket is lost',
    rule: '',
    patches: [{ file: TICKETS, find: 'this.#earlyNotes.push(note);', replace: ';' }],
    promises: [],
    facts: ['a note that overtakes the answer which names its ticket is kept'],
  },
  {
    name: 'a replayed message stays parked as well',
    rule: '',
    patches: [{ file: OPERATIONS, find: 'record.parked.delete(op.seq);', replace: ';' }],
    promises: [],
    facts: ['a parked message that is replayed runs again, one that is dropped frees its id'],
  },
  {
    name: 'the id of a dropped message stays taken',
    rule: '',
    patches: [{ file: OPERATIONS, find: 'step.record.taken.delete(idName(key, parked.id));', replace: ';' }],
    promises: [],
    facts: ['a parked message that is dropped frees its id'],
  },
  {
    name: 'a slot of a shared pace costs nothing',
    rule: '',
    patches: [{ file: TRANSITIONS, find: 'pauseMs > 0 ? nextMs : nextMs + costMs', replace: 'nextMs' }],
    promises: [],
    facts: ['a shared pace is kept by all replicas together'],
  },
  {
    name: 'a clock set back holds a pace up as long as it takes',
    rule: '',
    patches: [
      {
        file: TRANSITIONS,
        find: 'Math.min(Math.max(record.paces.get(name) ?? 0, wallMs), latestMs)',
        replace: 'Math.max(record.paces.get(name) ?? 0, wallMs)',
      },
    ],
    promises: [],
    facts: ['a clock set back holds no pace up for more than an hour'],
  },
  {
    name: 'what is asked outside the batches goes on after the end',
    rule: '',
    patches: [
      {
        file: SEAT,
        find: "this.#questions.end(new LeaseLostError('stopped'));",
        replace: ';',
      },
    ],
    promises: [],
    facts: ['calls to a mailroom end with its stop, and reject after it'],
  },
];
