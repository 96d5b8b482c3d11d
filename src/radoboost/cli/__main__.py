"""python -m radoboost.cli."""

from radoboost.cli import main

main()
