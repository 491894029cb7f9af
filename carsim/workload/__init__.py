"""Model, trace and policy turned into operations: bytes, MACs, vector operations."""
