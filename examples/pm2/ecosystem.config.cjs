module.exports = {
  apps: [
    {
      name: 'bot',
      script: 'dist/bot.js',
      instances: 2,
      // In cluster mode PM2 shares one port among the instances.
      exec_mode: 'cluster',
      env: { PORT: '3000', MESH_FILE: 'mesh.db' },
      // A reload goes on with the next instance when this one is ready, and gives the last one time for its turns.
      wait_ready: true,
      listen_timeout: 10_000,
      kill_timeout: 15_000,
    },
  ],
};
