"""How this room says that data cannot be had."""


class DataError(ValueError):
    """Data that is missing, broken or not as asked for; the sentence names the file and says what to do."""
