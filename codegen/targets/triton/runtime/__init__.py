"""The Triton backend at run time: a program of kernels -> something that runs on a device, or in
the interpreter."""
