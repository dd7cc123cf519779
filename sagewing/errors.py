"""The one error that a user can cause."""


class InputError(ValueError):
    """Something the caller gave is wrong; the message says what, where and what to do about it.

    The command line prints the message alone and exits with code 2.
    """
