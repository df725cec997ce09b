"""The tables of Orders."""

from sqlalchemy import MetaData

metadata = MetaData()
