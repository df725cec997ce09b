-- What is promised to customers, per product.
CREATE TABLE stock (
    sku      text   PRIMARY KEY,
    reserved bigint NOT NULL CHECK (reserved >= 0)
);
-- Which orders have their share: guards what the inbox has forgotten.
CREATE TABLE reservations (
    order_id    uuid        PRIMARY KEY,
    reserved_at timestamptz NOT NULL DEFAULT now()
);
