"""Common ground: sections, YAML, files, text, units, errors and statistics."""
