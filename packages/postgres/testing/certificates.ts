// Authorities and certificates of our own, for servers that speak TLS.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { giveAway } from './lab.js';

/** What one end shows, as files that the servers can read, and as text. */
export interface Shown {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: string;
  readonly key: string;
}

/** An authority in a folder that goes with it. Its certificates last a day. */
export class Authority implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'botmesh-authority-'));
  readonly certFile = join(this.folder, 'ca.crt');
  readonly #keyFile = join(this.folder, 'ca.key');

  constructor() {
    openssl('req', '-x509', ...NEW_KEY, ...subjectOf('authority'), '-keyout', this.#keyFile, '-out', this.certFile);
    giveAway(this.folder);
    giveAway(this.certFile);
  }

  get cert(): string {
    return readFileSync(this.certFile, 'utf8');
  }

  /** A certificate for whoever is called `name`, under these further names. */
  sign(name: string, ...names: readonly string[]): Shown {
    const at = (ending: string): string => join(this.folder, `${name}.${ending}`);
    openssl('req', ...NEW_KEY, '-subj', `/CN=${name}`, '-keyout', at('key'), '-out', at('csr'));
    const alternative = [`DNS:${name}`, ...names].join(',');
    writeFileSync(at('names'), `subjectAltName=${alternative}\n`);
    const by = [
      '-CA',
      this.certFile,
      '-CAkey',
      this.#keyFile,
      '-CAcreateserial',
      '-extfile',
      at('names'),
      '-days',
      '1',
    ];
    openssl('x509', '-req', '-in', at('csr'), ...by, '-out', at('crt'));
    // The server takes no key that others may read.
    chmodSync(at('key'), 0o600);
    giveAway(at('key'));
    giveAway(at('crt'));
    const [cert, key] = [readFileSync(at('crt'), 'utf8'), readFileSync(at('key'), 'utf8')];
    return { certFile: at('crt'), keyFile: at('key'), cert, key };
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'] as const;

function subjectOf(name: string): string[] {
  return ['-days', '1', '-subj', `/CN=botmesh ${name}`];
}

function openssl(...args: string[]): void {
  execFileSync('openssl', args, { stdio: 'pipe', timeout: 20_000 });
}
