import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Certificates {
  readonly folder: string;
  /** The authority that both sides trust. */
  readonly ca: string;
  /** What a client shows where the server asks for it. */
  readonly cert: string;
  readonly key: string;
}

let made: ReadonlyMap<string, string> | undefined;

/** An authority of our own, and one certificate for 127.0.0.1 and localhost that serves both sides, for one day. */
export function makeCertificates(folder: string): Certificates {
  made ??= make(folder);
  for (const [name, text] of made) writeFileSync(join(folder, name), text);
  return { folder, ca: made.get('ca.crt')!, cert: made.get('server.crt')!, key: made.get('server.key')! };
}

/** Once for each process: it takes a while. */
function make(folder: string): Map<string, string> {
  const at = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'pipe', timeout: 20_000 });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  writeFileSync(at('names'), 'subjectAltName=IP:127.0.0.1,DNS:localhost\n');
  const subject = ['-days', '1', '-subj', '/CN=botmesh lab'];
  openssl('req', '-x509', ...newKey, ...subject, '-keyout', at('ca.key'), '-out', at('ca.crt'));
  openssl('req', ...newKey, '-subj', '/CN=localhost', '-keyout', at('server.key'), '-out', at('server.csr'));
  const signed = [
    '-CA',
    at('ca.crt'),
    '-CAkey',
    at('ca.key'),
    '-CAcreateserial',
    '-extfile',
    at('names'),
    '-days',
    '1',
  ];
  openssl('x509', '-req', '-in', at('server.csr'), ...signed, '-out', at('server.crt'));
  return new Map(['ca.crt', 'server.crt', 'server.key'].map((name) => [name, readFileSync(at(name), 'utf8')]));
}

/** Lines for the server's configuration. */
export function tlsConfig({ folder }: Certificates, port: number): string[] {
  return [
    `tls-port ${port}`,
    `tls-cert-file ${join(folder, 'server.crt')}`,
    `tls-key-file ${join(folder, 'server.key')}`,
    `tls-ca-cert-file ${join(folder, 'ca.crt')}`,
    'tls-auth-clients no',
  ];
}
