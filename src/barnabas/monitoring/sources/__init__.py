"""Sources give values to the table's metrics, one module for each part of a node."""
