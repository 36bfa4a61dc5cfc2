"""Who may do what: access control lists, the authorizer that reads them, and what each API asks of it."""
