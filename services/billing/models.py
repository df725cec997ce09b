"""The tables of Billing."""

from sqlalchemy import MetaData

metadata = MetaData()
