import { beforeEach, expect, test } from 'vitest';
import { Proof } from './Proof.js';

let proof: Proof;

beforeEach(() => {
  proof = new Proof();
  for (const id of ['1', '2', '3']) proof.received('ana', id);
});

test('messages handled one after the other are in order', () => {
  for (const [i, id] of ['1', '2', '3'].entries()) proof.handled('ana', id, i + 1);

  expect(proof.counts).toEqual({ received: 3, handled: 3, inOrder: 3, lost: 0, doubled: 0, takenOver: 0 });
});

test('a message that was passed over is lost until it is handled, and then out of order', () => {
  proof.handled('ana', '2', 1);
  expect(proof.counts).toMatchObject({ handled: 1, inOrder: 0, lost: 1 });
  proof.handled('ana', '1', 2);

  expect(proof.counts).toMatchObject({ handled: 2, inOrder: 0, lost: 0 });
});

test('a message reported again is not doubled, one that the chat’s state counted again is', () => {
  proof.handled('ana', '1', 1);
  proof.handled('ana', '1', 1);
  expect(proof.counts).toMatchObject({ handled: 1, doubled: 0 });
  proof.handled('ana', '1', 2);

  expect(proof.counts).toMatchObject({ handled: 1, doubled: 1 });
});

test('an answer shown twice is doubled', () => {
  proof.shown('1');
  proof.shown('1');

  expect(proof.counts.doubled).toBe(1);
});
