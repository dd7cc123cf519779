"""The C of a filter's training: the steps of a record, and their derivative."""
