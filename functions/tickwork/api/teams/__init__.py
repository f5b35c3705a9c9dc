"""Teams over HTTP."""
