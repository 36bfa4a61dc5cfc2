"""The position of a query in its topics: where it begins, which topics those are, what of them is lost."""
