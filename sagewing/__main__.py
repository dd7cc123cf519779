"""`python -m sagewing`."""

from sagewing.cli.main import main

main()
