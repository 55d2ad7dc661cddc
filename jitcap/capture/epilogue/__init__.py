"""Capture's last step: what the program changed and returned -> rows that do it again."""
