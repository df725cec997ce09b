"""Effectively once, in eight lines; read the files in this order.

event.py         an event gets one id, once, and keeps it for life
outbox.py        the business transaction writes its event beside its rows: both, or neither
relay.py         publishes what is unpublished, at least once, a key's events in order
inbox.py         one row per consumer and event id, in the transaction of the effect: the second time is no effect
consumer.py      a batch, one transaction, then the offset: claim, handlers, commit
dead_letters.py  what can never work is parked, seen, repaired, and never skipped in silence
tasks.py         side effects (PDF, mail) are rows too, leased and retried until done
retention.py     days are partitions: old ones are dropped, and the inbox knows what it has forgotten
"""
