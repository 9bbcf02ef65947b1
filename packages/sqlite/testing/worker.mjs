// One replica in a process of its own, told what to do by its parent.
import { SqliteCoordinator } from '@botmesh/sqlite';

const [path, replicaId, leaseMs] = process.argv.slice(2);
const coordinator = new SqliteCoordinator({ path, replicaId, leaseMs: Number(leaseMs) });
const turns = new Map();
/** The host's monotonic clock: common to all its processes. */
const nowMs = () => Number(process.hrtime.bigint()) / 1e6;
const tell = (what) => process.send?.({ replicaId, atMs: nowMs(), ...what });

async function handle({ ticket, id, attempt }) {
  const turn = await coordinator.acquireTurn(ticket);
  tell({ event: 'handled', key: ticket.key, id, attempt, fence: turn.fence });
  await turn.release();
}
coordinator.onAdopted((message) => void handle(message));

const commands = {
  async hold({ key }) {
    const ticket = await coordinator.reserve(key);
    tell({ event: 'reserved', key, seq: ticket.seq });
    const turn = await coordinator.acquireTurn(ticket);
    turns.set(key, turn);
    turn.signal.addEventListener('abort', () => tell({ event: 'lost', key, reason: turn.signal.reason.reason }));
    tell({ event: 'granted', key, fence: turn.fence });
  },
  async release({ key }) {
    await turns.get(key)?.release();
    turns.delete(key);
    tell({ event: 'released', key });
  },
  async accept({ key, id }) {
    const ticket = await coordinator.accept(key, { id, body: id });
    tell({ event: 'accepted', key, id });
    await coordinator.acquireTurn(ticket);
    tell({ event: 'granted', key, id });
  },
  async stop() {
    await coordinator.stop();
    process.disconnect?.();
  },
};

process.on('message', ({ command, ...rest }) => {
  commands[command](rest).catch((error) => tell({ event: 'failed', command, message: String(error) }));
});
await coordinator.start();
tell({ event: 'started' });
