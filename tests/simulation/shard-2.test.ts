import { simulationShard } from './shard.js';

simulationShard(1, 2);
