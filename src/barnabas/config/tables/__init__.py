"""The keys themselves, as text tables; one module per area."""
