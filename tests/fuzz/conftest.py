"""Tests of programs made at random: the write log is compared with all that they can reach."""

from tests.helpers.log_comparison import compared as compared
