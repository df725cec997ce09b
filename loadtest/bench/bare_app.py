"""What the Order API is measured against: Flask, SQLAlchemy, one table, one row per request, and nothing else."""

import os

from flask import Flask, request
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from shared.runtime import database


class Base(DeclarativeBase):
    pass


class Entry(Base):
    __tablename__ = "entries"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    amount: Mapped[int]


def create_app() -> Flask:
    app = Flask(__name__)
    engine = database.engine(os.environ["DATABASE_URL"], "bare")

    @app.post("/entries")
    def add() -> tuple[dict[str, object], int]:
        given = request.get_json()
        with Session(engine, expire_on_commit=False) as session:
            entry = Entry(name=given["name"], amount=given["amount"])
            session.add(entry)
            session.commit()
            return {"id": entry.id, "name": entry.name, "amount": entry.amount}, 201

    return app
