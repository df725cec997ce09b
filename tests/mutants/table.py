"""The protections of the pattern, each with the change that takes it out and the tests that have to notice."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    name: str
    """The protection that is missing."""
    file: str
    old: str
    new: str
    tests: str
    """What to run: files, or -k expressions, as for pytest."""
    also: tuple[str, str] | None = None
    """Where a protection is there twice: the second change, in the same file."""

    def applied(self, source: str) -> str:
        for old, new in filter(None, [(self.old, self.new), self.also]):
            if source.count(old) != 1:
                raise Stale(f"{self.file} no longer holds this text exactly once: {old!r}")
            source = source.replace(old, new)
        return source


class Stale(Exception):
    """The source has moved on: a mutant that changes nothing proves nothing."""


MUTANTS = [
    Mutant(
        "inbox claim: every delivery is fresh",
        "shared/messaging/inbox.py",
        "FROM claimed WHERE NOT fresh",
        "FROM claimed WHERE false",
        "tests/integration/test_inbox.py",
    ),
    Mutant(
        "hash check: other bytes under a known id are a duplicate",
        "shared/messaging/inbox.py",
        "elif first != r.payload_hash and not known.same_event(r.event.id, r.payload_hash, first):",
        "elif False:",
        "tests/integration/test_inbox.py",
    ),
    Mutant(
        "offset after commit: stored and told to Kafka before the transaction",
        "shared/messaging/consumer.py",
        "            with self._session() as session, session.begin():\n"
        "                fresh, bad = self._claim(session, batch)\n",
        "            with self._session() as session, session.begin():\n"
        "                self._store_offsets(session, batch)\n"
        "            self._intake._tell_kafka(batch.next_offsets, wait_for_answer=True)\n"
        "            with self._session() as session, session.begin():\n"
        "                fresh, bad = self._claim(session, batch)\n",
        "tests/failure/test_consumer_killed.py",
    ),
    Mutant(
        "sorted claim: two batches take shared ids in different orders",
        "shared/messaging/inbox.py",
        "for r in sorted(received, key=lambda r: r.event.id.int):",
        "for r in received:",
        "tests/integration/test_inbox.py -k opposite_orders",
        also=("(SELECT FROM unread) ORDER BY d.event_id\n", "(SELECT FROM unread)\n"),
    ),
    Mutant(
        "letters first: nobody asks whether there are any",
        "shared/messaging/inbox.py",
        "SELECT floor, NULL, EXISTS (SELECT FROM unread) FROM guard",
        "SELECT floor, NULL, false FROM guard",
        "tests/integration/test_dead_letters.py",
        also=(" AND NOT EXISTS (SELECT FROM unread) ORDER BY", " ORDER BY"),
    ),
    Mutant(
        "floor check: what the inbox has forgotten is let in",
        "shared/messaging/inbox.py",
        "SELECT d.*, d.event_id >= guard.floor AND uuid_extract_timestamp",
        "SELECT d.*, uuid_extract_timestamp",
        "tests/integration/test_inbox.py tests/integration/test_retention.py",
    ),
    Mutant(
        "floor lock: a claim does not wait for housekeeping",
        "shared/messaging/inbox.py",
        "SELECT floor FROM inbox_floor FOR SHARE",
        "SELECT floor FROM inbox_floor",
        "tests/integration/test_inbox.py -k housekeeping",
    ),
    Mutant(
        "floor raised with the drop",
        "shared/messaging/retention.py",
        '            connection.execute("UPDATE inbox_floor SET floor = greatest(floor, %s)", (partition.end,))\n',
        "            pass\n",
        "tests/integration/test_retention.py",
    ),
    Mutant(
        "lock, then check: unpublished rows are looked for before the lock",
        "shared/messaging/retention.py",
        'connection.execute(SQL("LOCK TABLE ONLY {parent}',
        'unpublished = table == "outbox" and _holds_unpublished(connection, partition)\n'
        '        connection.execute(SQL("LOCK TABLE ONLY {parent}',
        "tests/integration/test_retention.py -k in_flight",
        also=('if table == "outbox" and _holds_unpublished(connection, partition):', "if unpublished:"),
    ),
    Mutant(
        "start at the lower offset: Kafka's is believed",
        "shared/messaging/positions.py",
        "    lower = in_database if there.committed is None else min(in_database, there.committed)\n",
        "    lower = in_database if there.committed is None else there.committed\n",
        "tests/integration/test_consumer.py -k 'set_back or emptied'",
    ),
    Mutant(
        "where a new partition begins is written down",
        "shared/messaging/positions.py",
        "    if new:\n        store(",
        "    if False:\n        store(",
        "tests/integration/test_consumer.py -k expires_before",
    ),
    Mutant(
        "a topic that lost its end is not taken for one whose records expired",
        "shared/messaging/intake.py",
        "if self.held[place].stored >= first:",
        "if False:",
        "tests/integration/test_consumer.py -k lost_its_end",
    ),
    Mutant(
        "records that are taken one by one do not keep a consumer from polling",
        "shared/messaging/intake.py",
        "self._fetch(self._settings.batch_size if wanted else 1, 0)",
        "self._fetch(self._settings.batch_size if wanted else 0, 0)",
        "tests/integration/test_consumer.py -k keep_a_consumer_from_polling",
    ),
    Mutant(
        "an error of our own is no unknown outcome of a mail",
        "services/billing/send.py",
        "            raise mail.NotNow(repr(error)) from error\n",
        "            raise\n",
        "tests/failure/test_mail_server.py -k our_own",
    ),
    Mutant(
        "a database set back under a running consumer is noticed",
        "shared/messaging/positions.py",
        "if found.get(place, 0) < expected:",
        "if False:",
        "tests/integration/test_consumer.py -k set_back",
    ),
    Mutant(
        "same batch again: a passing failure drops it",
        "shared/messaging/consumer.py",
        "            self._intake.put_back(batch.records)\n            raise\n        except Exception as error:",
        "            raise\n        except Exception as error:",
        "tests/integration/test_consumer.py -k 'deadlock or serialization'",
    ),
    Mutant(
        "resume after a rebalance during a hold",
        "shared/messaging/intake.py",
        "        self._kafka.resume(self._awaiting)\n",
        "",
        "tests/failure/test_outages.py -k rebalance",
    ),
    Mutant(
        "what was received for a partition that is taken away is left to its new owner",
        "shared/messaging/intake.py",
        "            elif place in self.held:\n",
        "            else:\n",
        "tests/integration/test_consumer_buffer.py",
    ),
    Mutant(
        "attempts are counted before the try",
        "shared/messaging/consumer.py",
        "        if self._counted is None or self._counted[0] is not record:",
        "        self._counted = record, 1\n        if False:",
        "tests/failure/test_killer_event.py",
    ),
    Mutant(
        "letters first: a redelivery applies a parked event",
        "shared/messaging/inbox.py",
        "for r in received if _is_open_question(r, known, result)]",
        "for r in received]",
        "tests/integration/test_inbox.py tests/integration/test_dead_letters.py",
    ),
    Mutant(
        "a discarded event is remembered",
        "shared/messaging/dead_letters.py",
        "            _remember_discarded(session, letter)\n",
        "            pass\n",
        "tests/integration/test_dead_letters.py -k discarded",
    ),
    Mutant(
        "lease token: a worker that slept may still speak",
        "shared/messaging/tasks.py",
        ' WHERE id = %s AND lease_token = %s\n"""\nFAIL',
        ' WHERE id = %s AND %s::uuid IS NOT NULL\n"""\nFAIL',
        "tests/integration/test_tasks.py",
    ),
    Mutant(
        "key order: the relay does not sort",
        "shared/messaging/relay.py",
        "        ORDER BY seq LIMIT %(per_shard)s",
        "        ORDER BY shard, seq DESC LIMIT %(per_shard)s",
        "tests/integration/test_relay.py",
    ),
    Mutant(
        "shards have one holder: a lock that was not granted is taken for held",
        "shared/messaging/shards.py",
        "return {shard for shard in range(self._count) if shard % len(present) == rank}",
        "return set(range(self._count))",
        "tests/integration/test_relay.py -k shared_fairly",
        also=("for shard, taken in self._cursor if taken})", "for shard, taken in self._cursor})"),
    ),
    Mutant(
        "mark only after the acknowledgement",
        "shared/messaging/relay.py",
        "        self._await_acknowledgements(connection, batch)\n",
        "",
        "tests/failure/test_outages.py -k kafka_away",
    ),
    Mutant(
        "unpublished rows, never rows after the last one",
        "shared/messaging/relay.py",
        "        rows = connection.execute(SELECT, parameters, prepare=True, binary=True).fetchall()\n",
        "        rows = connection.execute(SELECT, parameters, prepare=True, binary=True).fetchall()\n"
        "        seen = getattr(self, '_seen', UUID(int=0))\n"
        "        rows = [row for row in rows if row[0] > seen]\n"
        "        self._seen = max([seen, *(row[0] for row in rows)])\n",
        "tests/integration/test_relay.py -k lower_seq",
    ),
    Mutant(
        "a stopped reader loses its shards",
        "shared/messaging/relay.py",
        ', "tcp_user_timeout": lease_ms}',
        "}",
        "tests/failure/test_relay_windows.py -k large_batch",
    ),
]
