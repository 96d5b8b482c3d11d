"""Spark's daemon of Python workers, with what they need imported once: a worker that dies then costs little.

Tests of faults end many workers. The command's test starts workers as users do, which import everything themselves.
"""

if __name__ == "__main__":
    import numba  # noqa: F401
    import pandas  # noqa: F401
    from pyspark.daemon import manager

    import radoboost.holder.craft
    import radoboost.holder.runners.spark_runner  # noqa: F401

    manager()
