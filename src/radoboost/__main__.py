"""python -m radoboost: the command rado."""

from radoboost.cli import main

if __name__ == "__main__":
    main()
