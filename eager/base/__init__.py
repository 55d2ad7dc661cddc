"""The ground floor: what knows neither sizes nor tensors (dtypes, settings, errors, locks,
trees)."""
