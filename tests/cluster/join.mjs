/**
 * Joins the mesh. On a busy machine a process may need more than one attempt, as a supervisor would make by starting it
 * again; a Bot whose own start failed is stopped for good.
 */
export async function join(coordinator, attempts = 10) {
  try {
    await coordinator.start();
  } catch (error) {
    if (attempts === 1 || error.code !== 'unavailable') throw error;
    await join(coordinator, attempts - 1);
  }
}
