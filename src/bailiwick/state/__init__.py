"""What the authority must not forget, in one SQLite database. One room for each family of tables.

    database · epoch · owner              the file, what changed in it, and who else has it open
    ledger                                every operation on record
      queue · intents · encoding · notes    how records get there
      chain · verification · key            why they can be believed
      query · retention                     what is done with them afterwards
    grants · approvals · usage            who may do what, what people answered, what it costs
    the other modules                     the feed, answers by their key, temporary roots

A room imports the database and what it builds on, never one that builds on it.
"""
