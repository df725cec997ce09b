"""Dead letters over HTTP: for every service that consumes, beside shared/messaging/dead_letters.py, which decides."""
