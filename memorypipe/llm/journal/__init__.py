"""The journal: every model reply, written down before it is used."""
