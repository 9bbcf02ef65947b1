// Bots of the real Chat SDK in three processes, on PostgreSQL instead of Redis: a binding needs nothing that only one backend has.
import { postgres } from '../cluster/backends.js';
import { declareThreeProcesses } from './chat-sdk-facts.js';

declareThreeProcesses(postgres);
