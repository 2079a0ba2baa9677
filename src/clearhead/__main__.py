"""`python -m clearhead`, which `torchrun -m` needs."""

from clearhead.cli import main

if __name__ == "__main__":
    main()
