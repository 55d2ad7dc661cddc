"""The C++ backend at run time: C++ text -> a shared object -> something that runs."""
