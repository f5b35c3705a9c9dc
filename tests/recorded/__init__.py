"""Items and messages as each version wrote them, and the tests that every later one still reads them."""
