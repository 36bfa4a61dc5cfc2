"""One module per group of commands, or per part of a group that has many; `cli.main` names them."""
