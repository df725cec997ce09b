"""The pages of docs/reference, written from the code: `python -m infra.docs`. A test fails while one is stale."""
