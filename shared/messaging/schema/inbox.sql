-- What a consumer remembers: events it has applied, how far it has read, what it could not apply.
-- Run by the migrations of every service that consumes, and by the tests.

-- The inbox: one row per event and consumer, written in the transaction that applies the event. The primary key is what
-- makes the effect happen once. Partitioned by range of event_id, not by a timestamp column: a UUIDv7 begins with its
-- time, so a UTC day is a range of ids, the same id can only ever fall into one partition, and the primary key guards
-- the whole table. There must never be a DEFAULT partition: it would let an id in again whose day was dropped.
CREATE TABLE inbox (
    consumer       text        NOT NULL CHECK (consumer <> ''),
    event_id       uuid        NOT NULL,
    payload_hash   bytea       NOT NULL CHECK (octet_length(payload_hash) = 32),
    deliveries     integer     NOT NULL CHECK (deliveries >= 1),
    outcome        text        NOT NULL DEFAULT 'applied' CHECK (outcome IN ('applied', 'discarded')),
    from_topic     text        NOT NULL,
    from_partition integer     NOT NULL,
    from_offset    bigint      NOT NULL,
    processed_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, event_id)   -- serves the claim, and refuses the second application
) PARTITION BY RANGE (event_id);

-- The smallest id that the inbox still remembers. Housekeeping raises it in the transaction that drops a partition;
-- every claim reads it FOR SHARE, so that no event slips in between. Exactly one row, from the beginning.
CREATE TABLE inbox_floor (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    floor    uuid    NOT NULL
);
INSERT INTO inbox_floor (floor) VALUES ('00000000-0000-0000-0000-000000000000');

-- How far each consumer has read, committed together with the effects: everything below next_offset is applied or
-- parked in this database. By topic id, because a topic that is deleted and created again starts at offset 0.
CREATE TABLE consumer_offsets (
    consumer    text        NOT NULL,
    topic_id    text        NOT NULL,
    topic       text        NOT NULL,
    partition   integer     NOT NULL CHECK (partition >= 0),
    next_offset bigint      NOT NULL CHECK (next_offset >= 0),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, topic_id, partition)   -- serves the start of a consumer and every commit
);

-- One row per replica slot of a consumer. The slot itself is held by an advisory lock; the row tells the next holder
-- whether the last one said goodbye. If not, an event may have killed it, and the first batch is handled with care.
CREATE TABLE consumer_slots (
    consumer text        NOT NULL,
    slot     integer     NOT NULL CHECK (slot >= 1),
    clean    boolean     NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, slot)
);

-- How often an event was tried on its own, counted in a transaction of its own *before* the try, so that an event that
-- kills its consumer leaves a trace. The row goes away when the event is applied or parked.
CREATE TABLE handling_attempts (
    consumer   text        NOT NULL,
    topic_id   text        NOT NULL,
    partition  integer     NOT NULL,
    "offset"   bigint      NOT NULL,
    attempts   integer     NOT NULL CHECK (attempts >= 1),
    last_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, topic_id, partition, "offset")
);

-- Events that could not be applied, with everything a person needs to decide: the bytes, where they came from, why.
-- A parked event has no inbox row, so that a redrive can apply it. A letter is never deleted: a closed one still says
-- that these bytes were dealt with.
CREATE TABLE dead_letters (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer       text        NOT NULL,
    event_id       uuid,                  -- NULL where the bytes hold no usable id
    payload_hash   bytea       NOT NULL CHECK (octet_length(payload_hash) = 32),
    value          bytea,                 -- NULL for a tombstone
    key            bytea,
    topic_id       text        NOT NULL,
    topic          text        NOT NULL,
    partition      integer     NOT NULL,
    "offset"       bigint      NOT NULL,
    reason         text        NOT NULL CHECK (reason <> ''),
    error          text        NOT NULL,
    attempts       integer     NOT NULL DEFAULT 1,
    parked_at      timestamptz NOT NULL DEFAULT now(),
    repaired_value bytea,                 -- beside the original, never instead of it
    repaired_hash  bytea CHECK (octet_length(repaired_hash) = 32),
    closed_at      timestamptz,
    outcome        text CHECK (outcome IN ('redriven', 'discarded')),
    note           text,                  -- why it was discarded
    CHECK ((closed_at IS NULL) = (outcome IS NULL)),
    CHECK ((repaired_value IS NULL) = (repaired_hash IS NULL))
);
-- Serves "what is known about these ids?" before every claim; and one letter per event and payload.
CREATE UNIQUE INDEX dead_letters_of_event ON dead_letters (consumer, event_id, payload_hash)
    WHERE event_id IS NOT NULL;
-- One letter per place on the topic where there is no id to know it by.
CREATE UNIQUE INDEX dead_letters_of_place ON dead_letters (consumer, topic_id, partition, "offset")
    WHERE event_id IS NULL;
-- Serves the list of open letters and their number.
CREATE INDEX dead_letters_open ON dead_letters (consumer, id) WHERE closed_at IS NULL;
