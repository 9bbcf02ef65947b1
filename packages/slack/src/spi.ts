// For whoever writes a binding of a Slack framework: what a delivery is, whose chat it is, what it is known by.
export { type ArrivalKind, type Body, chatOf, idOf, kindOf, nameOf } from './arrival.js';
