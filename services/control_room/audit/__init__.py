"""The auditor: has any order been lost, doubled or changed? It only reads, and everything it says is counted.

It joins what nobody else can see together: three databases, the topic, the mailbox and the clients' own ledger. All of
it flows past as sorted streams, so that a million orders take time but no memory. Read in this order:

streams.py    what each place knows, sorted by event id or by order id
sorting.py    sorts what comes unsorted (topic, mailbox, ledger), on disk
lives.py      merges the streams: everything that is known about one event, one order
promises.py   the promises, a function each
audit.py      runs them all and collects the verdicts
settling.py   waits until nothing is in flight
timeline.py   the life of one order
naive.py      the same promises over the naive shop
"""
