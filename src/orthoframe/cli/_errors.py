"""How the command says that it cannot go on."""


class BadInput(Exception):
    """Input that the user can mend; the command prints the sentence and ends with status 2."""
