import { simulationShard } from './shard.js';

simulationShard(0, 2);
