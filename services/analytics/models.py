"""The tables of Analytics."""

from sqlalchemy import MetaData

metadata = MetaData()
