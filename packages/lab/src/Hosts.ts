import { execFileSync } from 'node:child_process';
import { isProgram } from './programs.js';

const SUBNET = '10.77.0';

/**
 * Hosts of their own on this machine: network namespaces on one switch. A cut between two of them is silent, as in a
 * network: sockets stay open. Needs Linux and root: see {@link whyNoHosts}.
 */
export class Hosts implements Disposable {
  readonly #prefix = `bm${process.pid.toString(36)}`;
  readonly #count: number;

  /** Host 1 to `count`, with addresses that end so. */
  constructor(count: number) {
    this.#count = count;
    try {
      this.#make();
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  address(host: number): string {
    return `${SUBNET}.${host}`;
  }

  /** What to put before a command that is to run on a host. */
  on(host: number): string[] {
    return ['ip', 'netns', 'exec', this.#name(host)];
  }

  run(host: number, ...command: readonly string[]): string {
    const [ip, ...rest] = [...this.on(host), ...command];
    return execFileSync(ip!, rest, { encoding: 'utf8', timeout: 10_000, stdio: ['ignore', 'pipe', 'pipe'] });
  }

  /** Nothing passes between the two any more, either way. */
  cut(one: number, other: number): void {
    // Packets go to a card that nobody has: no reset, no error, nothing.
    for (const [from, to] of [
      [one, other],
      [other, one],
    ] as const) {
      this.#ip(
        '-n',
        this.#name(from),
        'neigh',
        'replace',
        this.address(to),
        'lladdr',
        '02:00:00:00:00:99',
        'nud',
        'permanent',
        'dev',
        'eth0',
      );
    }
  }

  heal(one: number, other: number): void {
    for (const [from, to] of [
      [one, other],
      [other, one],
    ] as const) {
      this.#ip('-n', this.#name(from), 'neigh', 'del', this.address(to), 'dev', 'eth0');
    }
  }

  [Symbol.dispose](): void {
    for (let host = 0; host <= this.#count; host++) {
      try {
        this.#ip('netns', 'del', this.#name(host));
      } catch {
        // It was never made, or is gone.
      }
    }
  }

  #make(): void {
    const theSwitch = this.#name(0);
    this.#ip('netns', 'add', theSwitch);
    this.#ip('-n', theSwitch, 'link', 'add', 'br0', 'type', 'bridge');
    this.#ip('-n', theSwitch, 'link', 'set', 'br0', 'up');
    for (let host = 1; host <= this.#count; host++) {
      const name = this.#name(host);
      this.#ip('netns', 'add', name);
      this.#ip('link', 'add', `p${host}`, 'netns', theSwitch, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
      this.#ip('-n', theSwitch, 'link', 'set', `p${host}`, 'master', 'br0');
      this.#ip('-n', theSwitch, 'link', 'set', `p${host}`, 'up');
      this.#ip('-n', name, 'addr', 'add', `${this.address(host)}/24`, 'dev', 'eth0');
      this.#ip('-n', name, 'link', 'set', 'eth0', 'up');
      this.#ip('-n', name, 'link', 'set', 'lo', 'up');
    }
  }

  #name(host: number): string {
    return `${this.#prefix}-${host}`;
  }

  #ip(...args: readonly string[]): void {
    execFileSync('ip', args, { stdio: 'pipe', timeout: 10_000 });
  }
}

/** Why there can be no hosts here; undefined when there can. */
export function whyNoHosts(): string | undefined {
  if (process.platform !== 'linux') return 'Network namespaces are on Linux only.';
  if (process.getuid?.() !== 0) return 'Network namespaces need root.';
  if (!['/usr/sbin/ip', '/sbin/ip', '/usr/bin/ip', '/bin/ip'].some(isProgram)) return 'There is no ip (iproute2) here.';
  try {
    using _hosts = new Hosts(1);
    return undefined;
  } catch (error) {
    return `Network namespaces cannot be made here: ${String(error)}`;
  }
}
