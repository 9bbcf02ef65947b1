import { slackSocket } from './platforms.js';
import { declareChannel } from './suite.js';

declareChannel(slackSocket);
