"""make load: shoppers from Locust, then settle, audit and one report.

__main__.py     the command: is the shop there? Then Locust, with or without its web page
../locustfile.py, ../shapes.py   who the shoppers are, and how many at which moment
run.py          what is seen while it runs; at the end it is a file
afterwards.py   a process of its own: waits until the shop has settled, audits, writes the report

Locust's process turns blocking calls into switches between shoppers (gevent). Databases, Kafka and the audit are
therefore left to the second process; the first speaks only HTTP, and its files wait for the disk in a thread.
"""
