"""Who may do what: access control entries, the authorizer that decides by them, and what each API asks."""
