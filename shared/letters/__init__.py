"""Dead letters for people: a command and an HTTP API. What they ask for, shared/messaging/dead_letters.py does."""
