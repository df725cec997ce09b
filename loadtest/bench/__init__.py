"""What the pattern costs and what it gives: `make bench`, measured on real PostgreSQL and Kafka.

figures.py    a figure, its bar and its verdict; two ways measured in turn
servers.py    PostgreSQL and Kafka of the run's own
orders.py     the events everything is measured with
invoicing.py  the work a consumer does, written three ways
parts.py      the processes an event passes through; together.py runs several of them

consumer.py   batched consumer against one transaction per message, no inbox, and no Kafka
relay.py      draining the outbox against a bare loop
latency.py    commit → readable, commit → applied
inbox.py      claims in a full inbox; dropping a day against deleting it
http.py       the Order API against a bare endpoint
pdf.py        invoices rendered, against plain WeasyPrint and by several workers
sweeps.py     batch sizes, number of relays, WAL and statements per message

report.py     the table on the terminal and the JSON file; pages.py the page and the plots
"""
