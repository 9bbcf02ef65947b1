import type { Coordinator } from '@botmesh/core';
import { holding, type Keys, orderOf } from '@botmesh/core/spi';
import type { Context, MiddlewareFn } from 'grammy';
import { guardSends } from './guard-sends.js';

/**
 * The runner's `sequentialize`, across replicas: updates with a key in common are handled one at a time in the whole mesh,
 * in the order in which they came to this middleware. Several keys are taken one after the other, in the order of their
 * names. Start the coordinator before the first update.
 *
 * It keeps no updates: one whose process dies is lost with it, unless Telegram delivers it again. `replicate` keeps them.
 * Within `replicate`, which holds the chat already, it takes the other keys besides.
 *
 * @throws CoordinationUnavailableError into the middleware before it, when the backend does not answer
 */
export function sequentialize<C extends Context>(
  coordinator: Coordinator,
  constraint: (ctx: C) => Keys,
): MiddlewareFn<C> {
  return async (ctx, next) => {
    const keys = orderOf(constraint(ctx), 'sequentialize()');
    if (keys.length === 0) return next();
    guardSends(ctx.api);
    return holding(coordinator, keys, next);
  };
}
