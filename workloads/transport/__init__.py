"""How bytes get from host to host: one interface (`base`), one module per transport."""
