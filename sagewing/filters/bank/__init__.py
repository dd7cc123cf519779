"""Several filters of one state side by side."""

from sagewing.filters.bank.bank import Bank, BankState, BankTrace

__all__ = ["Bank", "BankState", "BankTrace"]
