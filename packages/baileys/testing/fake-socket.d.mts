import type { AuthState, WaSocket } from '@botmesh/baileys';

export function makeFakeSocket(options: { port: number; account: string; auth: AuthState; by: string }): WaSocket;
