"""The one network client of everything that is not a model: which addresses may be reached, and one exchange."""
