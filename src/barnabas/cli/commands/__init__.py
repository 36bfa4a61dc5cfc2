"""One module per group of commands, or per part of a group that has many; `cli.command_table` names them."""
