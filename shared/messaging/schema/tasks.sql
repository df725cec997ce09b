-- Side effects that still have to happen: the local outbox. A row is written in the transaction that makes the effect
-- necessary, and a worker carries it out afterwards. Not partitioned, so that (kind, key) is unique over all states: the
-- same invoice never gets a second task, not even after the first is done.
CREATE TABLE tasks (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind        text        NOT NULL CHECK (kind <> ''),
    key         text        NOT NULL CHECK (key <> ''),
    payload     jsonb       NOT NULL DEFAULT '{}',
    state       text        NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'leased', 'done', 'dead')),
    attempts    integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    due_at      timestamptz NOT NULL DEFAULT now(),   -- queued: not before; leased: when the lease runs out
    lease_token uuid,
    last_error  text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    UNIQUE (kind, key),   -- serves add and reopen
    CHECK ((state = 'leased') = (lease_token IS NOT NULL)),
    CHECK ((state IN ('done', 'dead')) = (finished_at IS NOT NULL))
);
-- Serves the lease: the next due tasks of a kind. Finished rows, soon the great majority, are not in it.
CREATE INDEX tasks_due ON tasks (kind, due_at, id) WHERE state IN ('queued', 'leased');
-- Serves the purge of what was done long ago.
CREATE INDEX tasks_done ON tasks (finished_at) WHERE state = 'done';
-- Serves the list of dead tasks.
CREATE INDEX tasks_dead ON tasks (kind, id) WHERE state = 'dead';
