import { redis } from '../cluster/backends.js';
import { declareReplicas } from './replicas.js';

declareReplicas(redis);
