"""A session of Spark on this machine, for all tests of one process."""

import os
import sys
from pathlib import Path

import pytest

MASTER = "local[2,3]"  # two tasks at once, and three attempts at each
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a short life: compiling well takes longer than it saves
LOG4J = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %m%n%ex
"""


@pytest.fixture(scope="session")
def logs(tmp_path_factory):
    """A folder with all that Spark says: its log, and the events that its pages are made of."""
    logs = tmp_path_factory.mktemp("logs")
    (logs / "log4j2.properties").write_text(LOG4J.format(path=logs / "log"))
    return logs


@pytest.fixture(scope="session")
def spark(logs):
    from pyspark.sql import SparkSession

    from radoboost.tables import spark_jobs

    before = os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(MASTER).config("spark.ui.enabled", "false")
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{logs}/log4j2.properties {JAVA}",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.daemon.module": "spark_daemon",
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parent),
        "spark.python.task.killTimeout": "200ms",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{logs}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    with spark_jobs.silence_pyspark_warnings():
        session = builder.getOrCreate()
    yield session
    session.stop()
    if before is None:
        del os.environ["PYSPARK_PYTHON"]
