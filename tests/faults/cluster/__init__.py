"""A cluster of servers, workers, a replicated database and an object store, whose processes and connections can be harmed."""
