"""The ground floor: origins, refusals, marks and records, which all others name."""
