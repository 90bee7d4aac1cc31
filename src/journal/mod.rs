//! The durable append-only log of record batches, used by the server and by clients' spools.
