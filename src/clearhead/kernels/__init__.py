"""GPU kernels by hand, for what a compiler leaves on the table; each is imported only where triton is."""
