"""The transaction coordinator of one partition of ``__transaction_state``, as a pure machine.

`states` has the states and their table of moves, `transaction` one transactional id and how it changes,
`ending` the rules of EndTxn in both generations, `machine` the operations, `queries` what tools ask,
`record_codec` the records as Kafka writes them.
"""
