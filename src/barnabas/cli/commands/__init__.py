"""The commands of ``barnabas``, one module each; :mod:`barnabas.cli.main` has the table of them."""
