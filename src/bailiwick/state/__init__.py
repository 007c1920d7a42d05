"""What the authority must not forget, in one SQLite database. One room for each family of tables.

    database · writer · epoch · owner     the file, its one writing thread, and who else has it open
    ledger                                every operation on record
      queueing · intents · encoding         how records get there
      chain · verifying · key               why they can be believed
      reading · retention                   what is done with them afterwards
    the other rooms                       grants, trust, rules, approvals, usage, the feed, temps

A room imports the database and what it builds on, never one that builds on it.
"""
