import { cloudApi } from './platforms.js';
import { declareChannel } from './suite.js';

declareChannel(cloudApi);
