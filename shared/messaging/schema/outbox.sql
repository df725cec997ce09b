-- How many shards the outbox has: a constant of the schema, written down once, here. It is the largest number of relays
-- that can share the work. A relay that was configured with another number refuses to start. Changing it needs an
-- outbox without unpublished rows, because the shard of a row is stored with it.
CREATE FUNCTION outbox_shards() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 8;

-- A domain, because its rule is tried when a row is written; a CHECK on the table would be tried again by every mark,
-- which the relay would feel (a third of its time).
CREATE DOMAIN kafka_topic AS text CHECK (VALUE ~ '^[a-zA-Z0-9._-]{1,249}$');

-- Events that a transaction of this service has decided on. A row is written in the transaction that causes it, so there
-- is no event without its cause and no cause without its event. The relay publishes rows and sets published_at; rows
-- stay until their day's partition is dropped, so that a person can look at them and `republish` can send them again.
-- Partitioned by the day inside the UUIDv7 event_id; shared/messaging/retention.py makes and drops the partitions.
-- There is no DEFAULT partition: it would swallow rows that belong elsewhere and then block the partition they need.
CREATE TABLE outbox (
    -- Per key, seq order is commit order, because the aggregate's row is locked before the outbox row is written.
    -- Across keys it is not: a lower seq may commit after a higher one. Nothing may remember "the last seq seen".
    seq          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- hashtextextended is what PostgreSQL's hash partitioning uses: it gives the same answer after an upgrade.
    shard        smallint    NOT NULL GENERATED ALWAYS AS
                             (mod(mod(hashtextextended(key, 0), outbox_shards()) + outbox_shards(), outbox_shards())) STORED,
    event_id     uuid        NOT NULL,
    topic        kafka_topic NOT NULL,
    key          text        NOT NULL,
    -- The final bytes: a second publication is identical to the first.
    value        bytea       NOT NULL,
    headers      jsonb       NOT NULL,
    published_at timestamptz,
    PRIMARY KEY (event_id)
) PARTITION BY RANGE (event_id);

-- Serves the relay's SELECT (unpublished rows of one shard, by seq) and the age of the oldest unpublished row.
-- Partial, so it holds the backlog only and is nearly empty on a good day.
CREATE INDEX outbox_unpublished ON outbox (shard, seq) WHERE published_at IS NULL;
