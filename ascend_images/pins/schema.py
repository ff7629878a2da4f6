"""The JSON schema of versions.toml, generated from the model: editors complete and check the file with it."""

import json

import msgspec

from ascend_images.pins.model import PinsFile

SCHEMA_FILE = "versions.schema.json"


def schema_text() -> str:
    """Return the schema as the text of versions.schema.json."""
    (schema,), components = msgspec.json.schema_components([PinsFile], ref_template="#/$defs/{name}")
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "versions.toml",
        **schema,
        "$defs": components,
    }
    return json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
