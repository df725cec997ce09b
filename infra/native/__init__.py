"""Runs docker-compose.yml without Docker: the same processes, commands and settings, as supervised local processes.

compose.py      reads the file and answers what to run, with names turned into addresses and volumes into folders
preflight.py    finds what would go wrong, before anything is started
supervise.py    keeps the processes running (supervisord)
stack.py        up, down, kill, …: the order of things
__main__.py     the command line
postgres.py, kafka.py, mail_sink.py   what stands in for the three infrastructure images
"""
