"""What crosses a service boundary. One model per event type; its JSON Schema lies beside it, for other languages.

`python -m shared.contracts` writes the schemas anew; a test fails while a file differs from its model.
"""

from pydantic import BaseModel

from shared.contracts.orders_confirmed import OrderConfirmed

CONTRACTS: dict[str, type[BaseModel]] = {
    "orders.confirmed": OrderConfirmed,
}
