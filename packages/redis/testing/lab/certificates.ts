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

/** An authority of our own, and one certificate for 127.0.0.1 and localhost that serves both sides, for one day. */
export function makeCertificates(folder: string): Certificates {
  const at = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'pipe', timeout: 20_000 });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  writeFileSync(at('names'), 'subjectAltName=IP:127.0.0.1,DNS:localhost\n');
  openssl(
    'req',
    '-x509',
    ...newKey,
    '-days',
    '1',
    '-subj',
    '/CN=botmesh lab',
    '-keyout',
    at('ca.key'),
    '-out',
    at('ca.crt'),
  );
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
  const read = (name: string) => readFileSync(at(name), 'utf8');
  return { folder, ca: read('ca.crt'), cert: read('server.crt'), key: read('server.key') };
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
