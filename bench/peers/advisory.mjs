// A session's advisory lock of PostgreSQL, on a pooled connection that is kept for the whole turn.
import pg from 'pg';

const TAKE = { name: 'take', text: 'SELECT pg_advisory_lock(hashtextextended($1, 0))' };
const GIVE = { name: 'give', text: 'SELECT pg_advisory_unlock(hashtextextended($1, 0))' };

export async function advisory({ where }) {
  const [connectionString, prefix] = where.split(' ');
  const pool = new pg.Pool({ connectionString, max: 20 });
  pool.on('error', () => {});
  return {
    async submit(chat, message) {
      const client = await pool.connect();
      const values = [`${prefix}${chat}`];
      try {
        await client.query({ ...TAKE, values });
        message.placed();
        try {
          await message.handle();
        } finally {
          await client.query({ ...GIVE, values });
        }
      } finally {
        client.release();
      }
    },
    close: () => pool.end().catch(() => {}),
  };
}
