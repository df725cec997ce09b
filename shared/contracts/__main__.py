"""Writes a JSON Schema file per event type beside the models."""

import json
from pathlib import Path

from shared.contracts import CONTRACTS


def schema_files() -> dict[Path, str]:
    folder = Path(__file__).parent
    return {
        folder / f"{event_type}.schema.json": json.dumps(model.model_json_schema(), indent=2, sort_keys=True) + "\n"
        for event_type, model in CONTRACTS.items()
    }


if __name__ == "__main__":
    for path, schema in schema_files().items():
        path.write_text(schema)
        print(f"{path.name} written")
